"""Take a snapshot of groups: from the request of an operator or of a command to its summary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.ledger.ledger import fold_snapshots
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.observe.readings import GroupSelection
from airflow_kafka_groups.observe.snapshot.broker_clocks import read_marks
from airflow_kafka_groups.observe.snapshot.collect import SnapshotSummary, take_snapshot
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest(GroupSelection):
    """Take a snapshot of a selection; what a broker did not list is missing in it.

    :param taken_by: the run, for the manifest, and ``dag_id`` its DAG. Default: no DAG.
    """

    taken_by: str = ""
    dag_id: str | None = None


async def snapshot_groups(
    admin: MaintenanceClient,
    layout: Layout,
    request: SnapshotRequest,
    *,
    notice: Callable[[str], None],
    progress: Progress = ignore_progress,
) -> SnapshotSummary:
    """Take a snapshot with the brokers' retention and view, and let the ledger know it; see ``take_snapshot``.

    :param notice: receives what is worth a line, such as a retention that is not known.
    """
    summary = await take_snapshot(
        admin,
        layout,
        group_ids=request.group_ids,
        include=request.groups.include,
        exclude=request.groups.exclude,
        protected=request.protected,
        airflow_run=request.taken_by,
        airflow_dag=request.dag_id,
        offsets_retention_minutes=await _retention(admin, notice) if request.group_ids is None else None,
        view=partial(read_view_for_snapshot, admin),
        clocks=partial(read_marks, admin),
        progress=progress,
    )
    await asyncio.to_thread(fold_snapshots, layout, summary.kafka_cluster_id)
    return summary


async def _retention(admin: MaintenanceClient, notice: Callable[[str], None]) -> int | None:
    try:
        retention = await admin.offsets_retention()
    except KafkaGroupsError as error:
        notice(f"The brokers' offsets retention is not known: {error}")
        return None
    for broker_id, why in retention.errors.items():
        notice(f"The offsets retention of broker {broker_id} is not known: {why}")
    return retention.minutes
