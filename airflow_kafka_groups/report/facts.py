"""What a report shows beside its plan: verdicts, the trend, keep-alive runs, pruned topics, what became of each group.

None of it may fail a report. What cannot be read is left out, and the page says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from airflow_kafka_groups.exceptions import MaintenanceError, SnapshotError
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan, load_plan
from airflow_kafka_groups.ledger.journal import read_history, record_of
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import CONFIRMED, Outcome, Reason
from airflow_kafka_groups.ledger.records import WHAT, KeptAlive
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.report.trend import TrendPoint, update_trend
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import PRUNE_PLANS, time_of

log = logging.getLogger(__name__)
_Fact = TypeVar("_Fact")

PRUNED_DAYS = 30
"""For so long, a pruning is in the reports."""

KEPT_BEFORE_RECHECK = {
    Reason.EXCLUDED.value: "Kept: excluded, restored or kept alive",
    Reason.POLICY.value: "Kept by an edit of the policy",
    Reason.NOT_NOTIFIED.value: "Kept: owner not notified",
    Reason.DELETED_BEFORE.value: "Kept: deleted before",
    Reason.ALIVE_BEFORE.value: "Kept: in use before",
}
"""Reasons for keeping a group from before its recheck."""
KEPT_WITHOUT_RECHECK = {
    **KEPT_BEFORE_RECHECK,
    Reason.PROTECTED.value: "Kept: protected",
    Reason.STOPPED.value: "Kept: stopped",
    Reason.EXPIRED.value: "Kept: plan expired",
    Reason.LEASE_LOST.value: "Kept: lease lost",
    Reason.TOO_SLOW.value: "Kept: read too slowly",
    Reason.CAME_BACK.value: "Kept: came back",
}
"""All reasons for keeping a group that are not the recheck's own."""
KEPT_IN_ORDER = (
    *("over_cap", "doubt", "notice", "waiting", "excluded", "protected", "by_rule", "reported", "unreadable"),
    *("no_offsets", "settling", "moving", "untouchable", "live"),
)
"""Why a plan keeps groups, those first that somebody should look at: a live group needs no explanation."""
NOT_REACHED = "the run did not reach it"
"""Why a planned group was kept of which no run has said anything."""
_NOT_LOOKED_AT = {
    *KEPT_BEFORE_RECHECK,
    *(Reason.PROTECTED, Reason.STOPPED, Reason.EXPIRED, Reason.TOO_SLOW, Reason.LEASE_LOST),
    *(Reason.NOT_LISTED, Reason.NOT_DESCRIBED, Reason.UNREADABLE),
}
"""Reasons that say nothing of whether the group still exists."""


class KeepAliveRuns(NamedTuple):
    """The recorded keep-alive runs of a cluster.

    :param meant: the groups that runs were about, also interrupted ones.
    :param verified: when the last verified run of a group began.
    :param retention: the brokers' offsets retention as the snapshot found it; ``None`` if it is not known.
    """

    meant: Mapping[str, KeptAlive]
    verified: Mapping[str, datetime]
    retention: timedelta | None = None


NO_KEEP_ALIVE = KeepAliveRuns({}, {})


class PrunedTopic(NamedTuple):
    """A topic that one plan pruned.

    :param groups: how many groups lost their offsets of it.
    :param partitions: how many partitions of them.
    """

    topic: str
    groups: int
    partitions: int


class Pruning(NamedTuple):
    """A plan whose run pruned something.

    :param topics: what was or may have been deleted.
    """

    plan_id: str
    created_at: datetime
    topics: Sequence[PrunedTopic]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """The facts.

    :param judged: what the verdicts say of the snapshot's groups, ``None`` if they are gone. A ``pyarrow.Table`` with
        the columns ``group_id``, ``lag``, ``idle_seconds``, and ``expires_at``: when the brokers will have removed its
        offsets, in seconds since 1970.
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
    runs = [] if named else [point]
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
            "group_id": table["group_id"],
            "lag": table["lag"],
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
    minutes = None
    if plan.snapshot_id != NAMED_BY_HAND:
        with suppress(SnapshotError):  # it was pruned: the records of the runs have theirs
            minutes = load_manifest(layout, plan.snapshot_id).offsets_retention_minutes
    retention = None if minutes is None else timedelta(minutes=minutes)
    return KeepAliveRuns(meant, ledger.last_kept(oldest), retention)


def prunings(layout: Layout, kafka_cluster_id: str, now: datetime) -> list[Pruning]:
    """Return the plans of the last 30 days whose runs pruned something, newest first.

    Raises ``MaintenanceError`` for a file that is damaged, and ``StorageError``.
    """
    since = now - timedelta(days=PRUNED_DAYS)
    ids = [id_ for id_ in reversed(FILES.ids(layout.root / PRUNE_PLANS)) if time_of(id_) >= since]
    if not ids:
        return []
    history = read_history(layout, kafka_cluster_id)
    found = []
    for plan_id in ids:
        records = [record_of(run) for run in history.of_plan(plan_id)]
        outcomes = merge_outcomes(record for record in records if not record["dry_run"])
        if not outcomes:
            continue
        plan = load_plan(layout, plan_id, prunes=True)
        if topics := _topics(plan, outcomes):
            found.append(Pruning(plan.plan_id, plan.created_at, topics))
    return found


def _topics(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]]) -> list[PrunedTopic]:
    groups, partitions = Counter[str](), Counter[str]()
    for item in plan.groups:
        if outcomes.get(item.name, {}).get("outcome") in (Outcome.DELETED, Outcome.UNKNOWN):
            groups[item.topic or ""] += 1
            partitions[item.topic or ""] += item.partitions
    return [PrunedTopic(topic, groups[topic], partitions[topic]) for topic in sorted(groups)]


def runs_that_count(records: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], bool | None]:
    """Return the runs that a plan is reported by, and whether these are dry ones; ``None`` if it was not run.

    Dry runs count only if there is no other run.
    """
    real = [record for record in records if not record["dry_run"]]
    return real or records, not real if records else None


def merge_outcomes(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the latest outcome of each group.

    A deleted group stays deleted when a later run finds it gone, or keeps it for whatever reason. A possibly deleted
    one stays so until a later run has looked at it: one that is gone then was deleted.
    """
    merged: dict[str, dict[str, str]] = {}
    for record in records:
        for item in record["outcomes"]:
            group_id = item["group_id"]
            merged[group_id] = _later(merged.get(group_id), item)
    return merged


def _later(before: dict[str, str] | None, item: Mapping[str, str]) -> dict[str, str]:
    """Return what became of a group, after what a later run says of it."""
    if before is not None and before["outcome"] == Outcome.DELETED and item["outcome"] in (Outcome.GONE, Outcome.KEPT):
        return before
    if before is not None and before["outcome"] == Outcome.UNKNOWN:
        if item["outcome"] == Outcome.KEPT and item.get("code") in _NOT_LOOKED_AT:
            return before
        if item["outcome"] == Outcome.GONE:
            return {**item, **CONFIRMED}
    return dict(item)


def looked_at_again(records: Iterable[Mapping[str, Any]]) -> tuple[set[str], dict[str, str]]:
    """Return the deleted groups that a second look did not find, and those that it found, with what is known of them.

    By the last look at each.
    """
    gone, present = set[str](), dict[str, str]()
    for record in records:
        outcomes = {item["group_id"]: item["outcome"] for item in record["outcomes"]}
        present = {group_id: state for group_id, state in present.items() if outcomes.get(group_id) != Outcome.GONE}
        if found := record["verification"]:
            deleted = {group_id for group_id, outcome in outcomes.items() if outcome == Outcome.DELETED}
            gone = (gone | deleted) - {*found["present"], *found["unclear"]}
            looked_at = deleted - {*found["unclear"]}
            present = {id_: state for id_, state in present.items() if id_ not in looked_at} | found["present"]
    return gone, present


def summary_of(plan: DeletionPlan, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of a plan and its runs, as JSON values."""
    used, dry_run = runs_that_count(records)
    return {
        "plan_id": plan.plan_id,
        "dry_run": dry_run,
        "counts": dict(plan.counts),
        "outcomes": dict(Counter(item["outcome"] for item in merge_outcomes(used).values())),
        "verified_gone": len(looked_at_again(used)[0]),
        "runs": len(records),
        "warnings": [*plan.warnings, *(warning for record in used for warning in record["warnings"])],
    }
