"""A cluster that was judged: the files a plan is made of, written as the Spark job writes them."""

import json
from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.fakes.snapshot_groups import groups_in
from tests.unit.judge.policy.files import write_policy
from tests.unit.made_once import made_once

CLUSTER = "prod"
DAYS = 30

Planned = dict[str, Any]
"""What the task that plans returns."""
Result = TypeVar("Result")


def judged_once(admin: FakeAdmin, storage: Path, stale: Collection[str], others: Collection[str] = ()) -> str:
    """Fill a cluster, and a storage with its snapshot and verdicts; return the snapshot's id."""

    def make() -> str:
        snapshot_id = take_snapshot(storage)
        judge(storage, snapshot_id, stale)
        return snapshot_id

    admin.groups = {name: FakeGroup() for name in (*stale, *others)}
    return _once(admin, storage, f"judged {sorted(stale)} {sorted(others)}", make)


def planned_once(
    admin: FakeAdmin, storage: Path, stale: Collection[str], others: Collection[str] = (), *, backed_up: bool = False
) -> dict[str, Any]:
    """Fill a cluster and a storage as ``judged_once``, then with a plan to delete what is stale; return its summary.

    :param backed_up: write the plan's backup as well.
    """

    def make() -> dict[str, Any]:
        planned = plan(storage, snapshot_id=judged_once(admin, storage, stale, others), max_share=1)
        if backed_up:
            back_up(storage, planned)
        return planned

    admin.groups = {name: FakeGroup() for name in (*stale, *others)}
    return _once(admin, storage, f"planned {sorted(stale)} {sorted(others)} {backed_up}", make)


def _once(admin: FakeAdmin, storage: Path, name: str, make: Callable[[], Result]) -> Result:
    found = made_once(name, storage, make)
    admin.forget_calls()
    return found


def take_snapshot(storage: Path) -> str:
    return str(run(ListGroupOffsetsOperator, storage)["snapshot_id"])


def judge(
    storage: Path, snapshot_id: str, stale: Collection[str], cluster: str = CLUSTER, new: Collection[str] = ()
) -> None:
    """Write a verdict for every group: stale for these, live for the others; ``new`` are those never seen before."""
    layout = Layout(storage, cluster)
    rows = []
    for group in groups_in(SnapshotReader(layout, snapshot_id)):
        idle_since = group.observed_at - timedelta(days=DAYS)
        rows.append(
            {
                "group_id": group.group_id,
                "group_type": group.group_type,
                "protocol_type": group.protocol_type,
                "state": group.state,
                "members": group.members,
                "coordinator": group.coordinator,
                "partitions": len(group.offsets),
                "lag": 5,
                "first_seen_at": group.observed_at if group.group_id in new else idle_since,
                "empty_since": idle_since,
                "last_moved_at": idle_since,
                "last_record_at": None,
                "idle_since": idle_since,
                "idle_seconds": DAYS * 86_400.0,
                "observations": 5,
                "observed_at": group.observed_at,
                "verdict": "stale" if group.group_id in stale else "live",
                "reason": "because the test says so",
            }
        )
    verdicts = dict(Counter(row["verdict"] for row in rows))
    summary = {
        "groups": len(rows),
        "verdicts": verdicts,
        "files": ["part-0.parquet"],
        "policy": {"max_gap_seconds": 172_800.0},
    }
    path, folder = layout.verdict_summary(snapshot_id), layout.verdicts(snapshot_id)
    folder.mkdir(parents=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), str(folder / "part-0.parquet"))
    path.write_bytes(json.dumps(summary).encode())


def plan_of(
    admin: FakeAdmin,
    storage: Path,
    stale: Collection[str],
    others: Collection[str] = ("live",),
    policy: str | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Fill a cluster, judge its snapshot, and plan to delete what is stale, by this policy."""
    admin.groups = {name: FakeGroup() for name in (*stale, *others)}
    snapshot_id = take_snapshot(storage)
    judge(storage, snapshot_id, stale)
    of_file = {} if policy is None else {"policy_file": str(write_policy(storage, policy))}
    return plan(storage, snapshot_id=snapshot_id, **{"max_share": 1, **of_file, **arguments})


def changes(storage: Path) -> list[dict[str, Any]]:
    """Return the records of changes, oldest first."""
    return [json.loads(path.read_text()) for path in sorted((storage / CLUSTER / "changes").glob("*.json"))]


def plan_of_used(admin: FakeAdmin, storage: Path) -> dict[str, Any]:
    """Plan to delete a, of which a snapshot before has two members, and b, of which none has."""
    admin.groups = {"a": FakeGroup(members=2), "b": FakeGroup(), "live": FakeGroup()}
    take_snapshot(storage)
    admin.groups["a"].members = 0
    snapshot_id = take_snapshot(storage)
    judge(storage, snapshot_id, stale={"a", "b"})
    return plan(storage, snapshot_id=snapshot_id, max_share=1, min_idle_seconds=0.001)


def context(run_id: str = "manual__1", map_index: int = -1) -> Any:
    """Return what Airflow gives to a task of a run, whatever its try."""
    ti = SimpleNamespace(dag_id="repair", task_id="t", map_index=map_index, try_number=1)
    return {"run_id": run_id, "ti": ti, "dag_run": SimpleNamespace()}


def stored(storage: Path) -> dict[str, Any]:
    """Return the arguments by which operators find the storage."""
    return {"storage_path": str(storage), "cluster": CLUSTER}


def of_plan(storage: Path, planned: dict[str, Any], task_id: str = "t") -> dict[str, Any]:
    """Return the arguments of an operator that goes on with a plan."""
    return {"task_id": task_id, **stored(storage), "plan_id": planned["plan_id"], "plan_digest": planned["digest"]}


def run(kind: Any, storage: Path, given: Any = None, /, **arguments: Any) -> dict[str, Any]:
    """Run an operator with this context, and check that an XCom can have what it returns."""
    found: dict[str, Any] = kind(**{"task_id": "t", **stored(storage), **arguments}).execute(given or {})
    assert json.loads(json.dumps(found)) == found
    return found


def plan(storage: Path, **arguments: Any) -> dict[str, Any]:
    return run(PlanCleanupOperator, storage, **arguments)


def back_up(storage: Path, planned: dict[str, Any]) -> dict[str, Any]:
    return run(BackupGroupOffsetsOperator, storage, **of_plan(storage, planned))


def delete(storage: Path, given: Any = None, /, **arguments: Any) -> dict[str, Any]:
    """Run the operator that deletes."""
    if "group_ids" in arguments:
        arguments.setdefault("observe_seconds", 0.01)
    return run(DeleteGroupsOperator, storage, given, **arguments)


def apply(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Run it by a plan."""
    return delete(storage, plan_id=planned["plan_id"], plan_digest=planned["digest"], **arguments)


class Site:
    """A cluster in memory, the storage of its clean-ups, and what its site sets for Airflow."""

    def __init__(self, admin: FakeAdmin, storage: Path, patch: pytest.MonkeyPatch) -> None:
        self.admin, self.storage, self.patch = admin, storage, patch
        self.stored, self.folder, self.layout = stored(storage), storage / CLUSTER, Layout(storage, CLUSTER)
        self.take_snapshot, self.judge = partial(take_snapshot, storage), partial(judge, storage)
        self.judged_once, self.planned_once = (
            partial(judged_once, admin, storage),
            partial(planned_once, admin, storage),
        )
        self.plan, self.plan_of, self.of_plan = (
            partial(plan, storage),
            partial(plan_of, admin, storage),
            partial(of_plan, storage),
        )
        self.back_up, self.delete, self.apply = (
            partial(back_up, storage),
            partial(delete, storage),
            partial(apply, storage),
        )

    def run(self, kind: Any, given: Any = None, /, **arguments: Any) -> dict[str, Any]:
        """Run an operator with that storage."""
        return run(kind, self.storage, given, **arguments)

    def connect(self, **extra: Any) -> None:
        """Restrict what the connection may do."""
        connection = {"conn_type": "kafka_groups", "host": "b1:9092", "extra": extra}
        self.patch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))

    def configure(self, **options: Any) -> None:
        """Set options of the section ``[kafka_groups]`` of Airflow's configuration."""
        for name, value in options.items():
            self.patch.setenv(f"AIRFLOW__KAFKA_GROUPS__{name.upper()}", str(value))

    def limit(self, where: str, **floors: Any) -> None:
        """Set the site's floors in Airflow's configuration or in the connection."""
        self.configure(**floors) if where == "configuration" else self.connect(floors=floors)

    def defaults(self, values: dict[str, Any]) -> None:
        """Set the defaults of the shipped DAGs."""
        self.patch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps(values))
