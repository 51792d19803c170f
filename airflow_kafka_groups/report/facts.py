"""What a report shows beside the plan and its runs: verdicts, the trend, keep-alive runs, pruned topics.

None of it may fail a report. What cannot be read is left out, and the page says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import MaintenanceError, SnapshotError
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.records import WHAT, KeptAlive
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.report.keep_alive import NO_KEEP_ALIVE, KeepAliveRuns
from airflow_kafka_groups.report.pruned import Pruning, prunings
from airflow_kafka_groups.report.trend_points import TrendPoint, update_trend
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.layout import Layout

log = logging.getLogger(__name__)
_Fact = TypeVar("_Fact")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """The facts.

    :param judged: what the verdicts say of the snapshot's groups, ``None`` if they are gone. A ``pyarrow.Table`` with
        the columns ``group_id``, ``lag``, ``lag_trend`` (records a day by which it grows), ``idle_seconds``, and
        ``expires_at``: when the brokers will have removed its offsets, in seconds since 1970.
    :param trend: the runs of the cluster, oldest first, with this plan's.
    :param kept_alive: the keep-alive runs of the cluster.
    :param storage: the folder above all clusters, for the command that restores.
    :param pruned: the plans that pruned topics lately.
    :param notes: what could not be read.
    """

    judged: Any = None
    trend: Sequence[TrendPoint] = ()
    kept_alive: KeepAliveRuns = NO_KEEP_ALIVE
    storage: str = ""
    pruned: Sequence[Pruning] = ()
    notes: Sequence[str] = ()


def gather_facts(layout: Layout, plan: DeletionPlan, point: TrendPoint) -> ReportFacts:
    """Read the facts of a plan, and put its entry into the trend, if it is one of the cluster's runs.

    A plan of groups that were named is none, nor is one of the command line before it is applied.
    """
    notes: list[str] = []

    def read(what: str, fact: Callable[[], _Fact], otherwise: _Fact) -> _Fact:
        try:
            return fact()
        except (MaintenanceError, OSError, ValueError) as exc:  # also verdicts with numbers that are no times
            log.warning("the report does not show %s: %s", what, exc)
            notes.append(f"Without {what}: {exc}")
            return otherwise

    named = plan.snapshot_id == NAMED_BY_HAND
    runs = [] if named or (plan.trial and point.dry_run is not False) else [point]
    return ReportFacts(
        judged=None if named else read("idle times and lag of all groups", lambda: _judged(layout, plan), None),
        trend=read("the trend", lambda: update_trend(layout, *runs), runs),
        kept_alive=read("keep-alive runs", lambda: _kept_alive(layout, plan), NO_KEEP_ALIVE),
        storage=str(layout.base),
        pruned=read("pruned topics", lambda: prunings(layout, plan.kafka_cluster_id, plan.created_at), []),
        notes=notes,
    )


def _judged(layout: Layout, plan: DeletionPlan) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    table: Any = load_verdicts(layout, plan.snapshot_id).table
    micros = table["offsets_expire_by"].cast(pa.int64()).to_pylist()
    expires = [None if at is None else round(at / 1_000_000) for at in micros]
    return pa.table(
        {
            **{name: table[name] for name in ("group_id", "lag", "lag_trend")},
            "idle_seconds": pc.round(table["idle_seconds"]).cast(pa.int64()),
            "expires_at": column(expires, pa.int64()),
        }
    )


def _kept_alive(layout: Layout, plan: DeletionPlan) -> KeepAliveRuns:
    ledger = Ledger(layout, plan.kafka_cluster_id)
    meant: Mapping[str, KeptAlive] = ledger.wanted(WHAT)
    if not meant:
        return NO_KEEP_ALIVE
    oldest = min(each.at for each in meant.values())
    minutes = None if plan.snapshot_id == NAMED_BY_HAND else _retention_minutes(layout, plan)
    retention = None if minutes is None else timedelta(minutes=minutes)
    return KeepAliveRuns(meant, ledger.last_kept(oldest), retention)


def _retention_minutes(layout: Layout, plan: DeletionPlan) -> int | None:
    try:
        return load_manifest(layout, plan.snapshot_id).offsets_retention_minutes
    except SnapshotError:  # it was pruned: the records of the runs have theirs
        return None
