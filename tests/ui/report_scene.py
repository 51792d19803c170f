"""The report of a made-up clean-up of any size, for tests in a browser and for measurements of the page."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa

from airflow_kafka_groups.judge.policy.families import Member, family_of, summarize
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.report.facts import KeepAliveRuns, PrunedTopic, Pruning, ReportFacts
from airflow_kafka_groups.report.html import render_report
from airflow_kafka_groups.report.trend import TrendPoint, trend_page
from tests.unit.change.plan import plans

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PLAN_ID = "20261121T110000Z-0a1b2c3d"
OWNERS = ("payments", "search", "data-platform", None)
_KEPT = (VerdictName.LIVE, VerdictName.LIVE, VerdictName.MOVING, VerdictName.SETTLING, VerdictName.NO_OFFSETS)
_MAKES: tuple[Callable[[random.Random, int], str], ...] = (
    lambda some, number: f"report-{UUID(int=some.getrandbits(128))}",
    lambda some, number: f"console-consumer-{number}",
    lambda some, number: f"payments.settlement.v{number % 40}.{number}",
    lambda some, number: f"search-indexer-{some.choice('abcdef')}{some.choice('xyz')}-shard{number}",
    lambda some, number: f"spark-kafka-source-{UUID(int=some.getrandbits(128))}-{number}-driver-0",
)


def group_ids(count: int, ending: str = "") -> list[str]:
    """Return different ids, most of them of families; always the same."""
    some = random.Random(7)
    return [some.choice(_MAKES)(some, number) + ending for number in range(count)]


def plan_of(ids: list[str]) -> tuple[DeletionPlan, pa.Table]:
    """Return a plan that deletes about a third of the groups, and what was judged of all of them."""
    some = random.Random(8)
    planned, kept, members, judged = [], [], [], []
    for group_id in ids:
        family = family_of(group_id)
        known: dict[str, Any] = {"owner": some.choice(OWNERS), "family": family and family.name}
        is_planned, idle = some.random() < 0.35, some.expovariate(1 / (20 * 86_400.0))
        lag = int(some.paretovariate(0.4)) % 10**8
        verdict = some.choice(_KEPT)
        expires = round((NOW + some.uniform(-1, 20) * DAY).timestamp())
        in_use = not is_planned and verdict is VerdictName.LIVE
        judged.append((group_id, lag, None if in_use else round(idle), None if in_use else expires))
        if family:
            since = NOW - some.uniform(0, 30) * DAY
            members.append(Member(group_id, family.name, known["owner"], is_planned, since))
        if is_planned:
            known |= {"idle_since": NOW - timedelta(seconds=idle), "idle_seconds": idle, "partitions": 3, "lag": lag}
            reason = f"idle for {idle / 86_400:.1f} days (12 snapshots); the policy requires 7.0 days and 2 snapshots"
            planned.append(plans.group(group_id, reason=reason, **known))
        else:
            reason = {VerdictName.LIVE: "it has 3 member(s), state Stable"}.get(verdict, "idle for 2.0 h (3 snapshots)")
            kept.append(KeptGroup(group_id=group_id, verdict=verdict, reason=reason, **known))
    counts = {name.value: sum(group.verdict == name for group in kept) for name in VerdictName}
    plan = plans.plan(
        plan_id=PLAN_ID,
        cluster="prod-eu",
        created_at=NOW - DAY / 24,
        expires_at=NOW + DAY,
        policy=PlanPolicy(min_idle_seconds=604_800, max_share=1.0),
        counts={**counts, "found": len(ids), "stale": len(planned), "planned": len(planned)},
        warnings=("most of the cluster looks stale: are its consumers down?",),
        groups=planned,
        kept=kept,
        families=tuple(family.to_json() for family in summarize(members, NOW)),
    )
    names = ("group_id", "lag", "idle_seconds", "expires_at")
    return plan, pa.table(dict(zip(names, map(list, zip(*judged, strict=True)), strict=True)))


def record_of(plan: DeletionPlan) -> dict[str, Any]:
    """Return the record of a run that deleted nearly all groups of a plan."""
    outcomes = []
    for number, group_id in enumerate(plan.group_ids):
        kind = ("failed", "refused") if number % 97 == 1 else ("kept", "moved") if number % 41 == 1 else None
        outcome, code = kind or ("deleted", "deleted")
        outcomes.append({"group_id": group_id, "outcome": outcome, "code": code, "reason": f"because of {code}"})
    return {
        "run_id": "20261121T113000Z-0a1b2c3d",
        "dry_run": False,
        "started_at": NOW.isoformat(),
        "finished_at": NOW.isoformat(),
        "seconds": 3.2,
        "actor": {"user": "ann"},
        "counts": {"deleted": sum(item["outcome"] == "deleted" for item in outcomes)},
        "warnings": [],
        "verification": {"gone": len(outcomes), "present": {}, "unclear": {}},
        "outcomes": outcomes,
    }


def trend_of(plan: DeletionPlan, runs: int = 90) -> list[TrendPoint]:
    """Return a trend that ends with the plan."""
    some, points = random.Random(9), []
    for back in reversed(range(runs)):
        grown = 1 - back / runs / 2
        scaled = {name: round(count * grown * some.uniform(0.9, 1.1)) for name, count in plan.counts.items()}
        points.append(
            TrendPoint(
                plan_id=f"{NOW - back * DAY:%Y%m%dT%H%M%SZ}-00000000",
                created_at=NOW - back * DAY,
                counts=scaled,
                outcomes={"deleted": scaled["planned"]} if back % 3 == 0 else {"would_delete": scaled["planned"]},
                dry_run=back % 3 != 0,
            )
        )
    return points


def large_report(count: int, *, ending: str = "", runs: bool = True, points: int = 90) -> str:
    """Return the page of a clean-up of so many groups.

    :param ending: added to each id.
    :param runs: whether the plan was applied.
    :param points: how many earlier plans the trend has.
    """
    ids = group_ids(count, ending)
    plan, judged = plan_of(ids)
    meant = {
        group_id: KeptAlive(NOW - number * DAY, NOW + (7 - number) * DAY) for number, group_id in enumerate(ids[:9])
    }
    verified: Mapping[str, datetime] = {group_id: each.at for group_id, each in meant.items()}
    facts = ReportFacts(
        judged=judged,
        trend=trend_of(plan, points),
        kept_alive=KeepAliveRuns(meant, verified),
        storage="/srv/kafka-groups",
        pruned=[Pruning(plan.plan_id, NOW, [PrunedTopic("old & gone", 2, 3)])],
    )
    records = [record_of(plan)] if runs else []
    return render_report(plan, records, files={"plan": "/srv/kafka-groups/plan.json"}, facts=facts, now=NOW)


def large_trend(count: int, *, points: int = 90) -> str:
    """Return the page of the trend of so many groups and plans."""
    plan, _ = plan_of(group_ids(count))
    return trend_page(plan.cluster, trend_of(plan, points), NOW)
