"""The topics that were pruned on a cluster, and the commands that undo it, for the report of a clean-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.ledger.audit import record_of
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan
from airflow_kafka_groups.ledger.journal.files import may_delete
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.report.groups import restore_line
from airflow_kafka_groups.report.merging import merge_outcomes
from airflow_kafka_groups.report.page import SHOWN, part
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import PRUNE_PLANS, time_of

SHOWN_DAYS = 30
MOST_PLANS = 100
"""The most plans that a report shows, so that it does not read without end; it says so where there are more."""


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


def prunings(layout: Layout, kafka_cluster_id: str, now: datetime) -> list[Pruning]:
    """Return the newest plans of the last 30 days whose runs pruned something, at most one more than a report shows.

    Raises ``MaintenanceError`` for a file that is damaged, and ``StorageError``.
    """
    return list(islice(_prunings(layout, kafka_cluster_id, now - timedelta(days=SHOWN_DAYS)), MOST_PLANS + 1))


def _prunings(layout: Layout, kafka_cluster_id: str, since: datetime) -> Iterator[Pruning]:
    ids = [id_ for id_ in reversed(FILES.ids(layout.root / PRUNE_PLANS)) if time_of(id_) >= since]
    if not ids:
        return
    journal = Journal(layout.base, kafka_cluster_id)
    begun = journal.begun_since(since)
    applied = {entry.data.get("plan_id") for entry in begun.values() if may_delete(entry)}
    for plan_id in ids:
        if plan_id not in applied:
            continue
        plan = load_plan(layout, plan_id, prunes=True)
        records = [record_of(run) for run in journal.of_plan(plan_id, begun)]
        outcomes = merge_outcomes(record for record in records if not record["dry_run"])
        if topics := _topics(plan, outcomes):
            yield Pruning(plan_id, plan.created_at, topics)


def _topics(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]]) -> list[PrunedTopic]:
    groups, partitions = Counter[str](), Counter[str]()
    for item in plan.groups:
        if outcomes.get(item.name, {}).get("outcome") in (Outcome.DELETED, Outcome.UNKNOWN):
            groups[item.topic or ""] += 1
            partitions[item.topic or ""] += item.partitions
    return [PrunedTopic(topic, groups[topic], partitions[topic]) for topic in sorted(groups)]


def pruned_section(found: Sequence[Pruning], cluster: str, storage: str) -> Markup:
    """Return the topics that were pruned and the command for each plan; nothing where there are none."""
    if not found:
        return Markup()
    more, found = len(found) > MOST_PLANS, found[:MOST_PLANS]
    rows = [(pruning, topic) for pruning in found for topic in pruning.topics]
    commands = [restore_line(pruning.plan_id, cluster, storage) for pruning in found]
    note = f"Offsets that live groups no longer read, deleted in the last {SHOWN_DAYS} days"
    note += f" by the newest {MOST_PLANS} plans; there are more" if more else ""
    return part("pruned", rows[:SHOWN], len(rows), note, commands)
