"""A cluster that was judged: the files a plan is made of, written as the Spark job writes them."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.maintenance.snapshot.reader import SnapshotReader
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator

CLUSTER = "prod"
DAYS = 30


def take_snapshot(storage: Path) -> str:
    operator = ListGroupOffsetsOperator(task_id="list_offsets", storage_path=str(storage), cluster=CLUSTER)
    snapshot_id = operator.execute({})["snapshot_id"]
    assert isinstance(snapshot_id, str)
    return snapshot_id


def judge(storage: Path, snapshot_id: str, stale: Collection[str], cluster: str = CLUSTER) -> None:
    """Write a verdict for every group: stale for these, live for the others."""
    layout = Layout(storage, cluster)
    rows = []
    for group in SnapshotReader(layout, snapshot_id).groups():
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
                "first_seen_at": idle_since,
                "empty_since": idle_since,
                "last_moved_at": idle_since,
                "idle_since": idle_since,
                "idle_seconds": DAYS * 86_400.0,
                "observations": 5,
                "observed_at": group.observed_at,
                "verdict": "stale" if group.group_id in stale else "live",
                "reason": "because the test says so",
            }
        )
    summary = {"groups": len(rows), "policy": {"max_gap_seconds": 172_800.0}}
    folder = layout.root / "verdicts" / snapshot_id
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), str(folder / "part-0.parquet"))
    (layout.root / "verdicts" / f"{snapshot_id}.json").write_bytes(json.dumps(summary).encode())


def plan(storage: Path, **arguments: Any) -> dict[str, Any]:
    operator = PlanCleanupOperator(task_id="plan", storage_path=str(storage), cluster=CLUSTER, **arguments)
    return operator.execute({})


def back_up(storage: Path, planned: dict[str, Any]) -> dict[str, Any]:
    operator = BackupGroupOffsetsOperator(
        task_id="backup",
        storage_path=str(storage),
        cluster=CLUSTER,
        plan_id=planned["plan_id"],
        plan_digest=planned["digest"],
    )
    return operator.execute({})


def delete(storage: Path, **arguments: Any) -> dict[str, Any]:
    """Run the operator that deletes."""
    if "group_ids" in arguments:
        arguments.setdefault("observe_seconds", 0.01)
    return DeleteGroupsOperator(task_id="t", storage_path=str(storage), cluster=CLUSTER, **arguments).execute({})


def apply(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Run it by a plan."""
    return delete(storage, plan_id=planned["plan_id"], plan_digest=planned["digest"], **arguments)
