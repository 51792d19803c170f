"""A storage with the records of a cluster's groups, and Airflow's API server in which Ann may see them and Bob not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene

DAG, RUN = "snapshot_group_offsets", "manual__2026-11-21T12:00:00+00:00"
ANN, BOB = "ann", "bob"
HOSTILE = "<img src=x onerror=alert(1)>/../%2e"


def context(dag_id: str | None = DAG) -> Any:
    task = SimpleNamespace(dag_id=dag_id, task_id="t", map_index=-1, try_number=1, xcom_push=lambda **_: None)
    return {"ti": task, "run_id": RUN}


def take_snapshot(storage: Path, dag_id: str | None = DAG, cluster: str = scene.CLUSTER) -> str:
    """Take a snapshot as a run of a DAG; return its id."""
    operator = ListGroupOffsetsOperator(task_id="list_offsets", storage_path=str(storage), cluster=cluster)
    return str(operator.execute(context(dag_id))["snapshot_id"])


def fill(admin: FakeAdmin, storage: Path, more: int = 0) -> dict[str, Any]:
    """Let a cluster live a little: three snapshots, a judgement, a plan, its deletion, and a restore of one group."""
    stale = ["a", "report-1", "report-2", HOSTILE]
    admin.groups = {name: FakeGroup() for name in stale}
    admin.groups["live"] = FakeGroup(members=2, state=GroupState.STABLE)
    admin.groups |= {f"orders-{number:03}": FakeGroup({TopicPartition("t", 0): number % 9}) for number in range(more)}
    for _ in range(2):
        take_snapshot(storage)
    snapshot_id = take_snapshot(storage)
    scene.judge(storage, snapshot_id, stale)
    planned = scene.plan(storage, snapshot_id=snapshot_id, max_share=1)
    scene.back_up(storage, planned)
    scene.apply(storage, planned)
    restore = {"storage_path": str(storage), "cluster": scene.CLUSTER, "plan_id": planned["plan_id"]}
    RestoreGroupOffsetsOperator(task_id="restore", group_ids=["a"], **restore).execute(context("restore_group_offsets"))
    return planned


def login(name: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role="viewer"))


@contextmanager
def api_server(seen: str = DAG) -> Iterator[Any]:
    """Yield Airflow's API server's app with ours in it. Ann may see one DAG, Bob no DAG at all.

    :param seen: the DAG that Ann may see. Default: the one that takes snapshots.
    """
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.utils.db import initdb

    def is_authorized_dag(self: Any, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        return user.get_name() == ANN and details is not None and details.id == seen

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
        initdb()
        purge_cached_app()
        yield create_app(apps="core")
        purge_cached_app()
