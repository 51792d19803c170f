"""What ``explain`` shows of a group's topics: what the newest plan to prune topics says, and what was pruned before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from airflow_kafka_groups.exceptions import KafkaGroupsError

if TYPE_CHECKING:
    from airflow_kafka_groups.storage.layout import Layout

CHANGES = {
    "topic_missing": "nothing: brokers forget the offsets of a deleted topic by themselves",
    "settling": "wait, or relax the rule",
    "group_idle": "a commit of the group in a topic that it reads",
    "protected": "take its pattern out of the protected groups of the plan or of the connection",
    "excluded": "take its pattern out of exclude, or end its keep-alive runs",
    "by_rule": "a rule with the action prune-topics that certainly matches it, and a new plan",
    "notice": "a rule without a notice",
    "wrong_kind": "nothing: topics of groups of this kind are never pruned",
    "doubt": "time, and a new plan",
    "over_cap": "a later plan, or a higher max_groups or max_share",
}
_RUNS = 5


class Row(NamedTuple):
    """One check, as ``explain`` shows it."""

    check: str
    finding: str
    evidence: str
    change: str = ""


def rows_of_pruning(layout: Layout, cluster_id: str | None, group_id: str) -> Iterator[Row]:
    """Yield what the newest plan to prune topics and the journal say of a group's topics. They decide nothing of it."""
    from airflow_kafka_groups.ledger.audit import read_history
    from airflow_kafka_groups.ledger.prune_plan import name_of

    yield from _rows_of_plan(layout, group_id)
    history = read_history(layout, cluster_id)
    # Runs before a checkpoint are found by the names in it.
    named = {*history.deletions(), *history.lives(), *chain.from_iterable(run.outcomes for run in history.runs)}
    topics = {name: name.rpartition(" [")[2].removesuffix("]") for name in named}
    every = [
        (run, name)
        for name in sorted(name for name, topic in topics.items() if name == name_of(group_id, topic))
        for run in history.of_group(name, _RUNS)
        if run.begun.get("what") == "prune-topics"
    ]
    newest = sorted({run.number for run, _ in every})[-_RUNS:]
    for run, name in sorted(every, key=lambda item: item[0].number):
        if run.number not in newest:
            continue
        outcome, dry = run.outcomes[name], " (dry run)" if run.begun.get("dry_run") else ""
        evidence = f"topic {topics[name]!r}: run {run.run_id}{dry}: {outcome.outcome.value}: {outcome.reason}"
        yield Row("prune-topics", "info", evidence, run.path)


def _rows_of_plan(layout: Layout, group_id: str) -> Iterator[Row]:
    from airflow_kafka_groups.ledger.prune_plan import load_prune_plan
    from airflow_kafka_groups.storage.durable_files import list_ids
    from airflow_kafka_groups.storage.paths import PRUNE_PLANS

    plan_id = max(list_ids(layout.root / PRUNE_PLANS), default=None)
    if plan_id is None:
        return
    try:
        plan = load_prune_plan(layout, plan_id)
    except KafkaGroupsError as error:
        yield Row("prune-topics", "info", str(error), "a new plan")
    else:
        for item in plan.groups:
            if item.group_id == group_id:
                evidence = f"topic {item.topic!r}: planned in {plan_id}: {item.reason}"
                yield Row("prune-topics", "info", evidence, "a member that subscribes to it, or a commit")
        for kept in plan.kept:
            if kept.group_id == group_id:
                rule = f" (rule {kept.rule!r})" if kept.rule else ""
                evidence = f"topic {kept.topic!r}: kept ({kept.verdict}) in {plan_id}{rule}: {kept.reason}"
                yield Row("prune-topics", "info", evidence, CHANGES.get(kept.verdict, ""))
