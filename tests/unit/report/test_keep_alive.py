"""The forecast of groups that are kept alive."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.ledger.records import KeptAlive, Verified, log_change
from airflow_kafka_groups.report.facts import KeepAliveRuns, gather_facts
from airflow_kafka_groups.report.sections import forecast, keep_alive_section
from airflow_kafka_groups.report.trend import point_of
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup
from tests.fakes.wanted import want
from tests.unit.change.plan import plans
from tests.unit.change.scene import layout_in, planned

DAY = timedelta(days=1)
RETENTION = 6 * DAY


def plan_with(*kept: tuple[str, str, str | None], rules: tuple[Rule, ...] = ()) -> DeletionPlan:
    """Return a plan that keeps these groups: id, verdict and rule."""
    groups = [KeptGroup(group_id=id_, verdict=verdict, reason="r", rule=rule, owner="o") for id_, verdict, rule in kept]
    return plans.plan(policy=PlanPolicy(min_idle_seconds=604_800, rules=rules), groups=(), kept=groups)


def runs(**days_ago: float) -> KeepAliveRuns:
    meant = {name: KeptAlive(NOW - days * DAY, NOW - days * DAY + RETENTION) for name, days in days_ago.items()}
    return KeepAliveRuns(meant, {name: each.at for name, each in meant.items()})


def statuses(plan: DeletionPlan, known: KeepAliveRuns) -> dict[str, str]:
    return {each.group_id: each.status for each in forecast(plan, known, NOW)}


def test_a_group_is_safe_then_due_then_late() -> None:
    names = ("safe", "due", "late", "in_use", "other")
    plan = plan_with(*((name, "live" if name == "in_use" else "settling", None) for name in names))
    known = runs(safe=3.9, due=4.1, late=6.1, in_use=9, gone=1)
    assert statuses(plan, known) == {
        "late": "late",
        "due": "due",
        "safe": "safe",
        "in_use": "in use",
        "gone": "not in the snapshot",
    }
    safe = next(each for each in forecast(plan, known, NOW) if each.group_id == "safe")
    assert (safe.until, safe.due_at) == (NOW + 2.1 * DAY, NOW + 0.1 * DAY)


def test_an_interrupted_run_proves_nothing() -> None:
    known = runs(a=1)
    plan = plan_with(("a", "settling", None))
    assert statuses(plan, KeepAliveRuns(known.meant, {})) == {"a": "not kept alive yet"}
    assert statuses(plan, KeepAliveRuns(known.meant, {"a": NOW - 7 * DAY})) == {"a": "late"}, "the last verified one"


def test_a_retention_that_was_shortened_since_counts() -> None:
    plan, known = plan_with(("a", "settling", None)), runs(a=2)
    assert statuses(plan, known) == {"a": "safe"}
    assert statuses(plan, known._replace(retention=DAY)) == {"a": "late"}
    assert statuses(plan, known._replace(retention=90 * DAY)) == {"a": "safe"}
    assert forecast(plan, known._replace(retention=90 * DAY), NOW)[0].until == NOW + 4 * DAY


def test_groups_of_a_rule_are_forecast_before_their_first_run() -> None:
    rule = Rule(name="sleepers", action=RuleAction.KEEP_ALIVE, min_idle_seconds=1, min_observations=2)
    plan = plan_with(("a", "by_rule", "sleepers"), ("b", "by_rule", "other"), rules=(rule,))
    assert statuses(plan, runs()) == {"a": "not kept alive yet"}
    html = keep_alive_section(plan, runs(), NOW)
    assert "1 not kept alive yet; 0 more are due within 7 days" in html
    assert "sleepers" in html


def test_without_such_groups_there_is_no_section() -> None:
    assert keep_alive_section(plan_with(("a", "live", None)), runs(), NOW) == ""


def test_what_is_due_soon_is_counted_and_those_in_danger_come_first() -> None:
    plan = plan_with(*((name, "settling", None) for name in "abc"))
    html = keep_alive_section(plan, runs(a=1, b=6.5, c=0), NOW)
    assert "1 late, 2 safe; 2 more are due within 7 days" in html
    assert html.index("<bdi>b<") < html.index("<bdi>a<") < html.index("<bdi>c<")


def kept_alive(layout: Layout, at: datetime, retention: timedelta, cluster_id: str = CLUSTER_ID) -> None:
    """Let a keep-alive run of the group a be in the log, and be verified."""
    want(layout, "a", at=at, lasts=retention, cluster_id=cluster_id)
    log_change(layout, cluster_id, Verified(at=at, groups=("a",)))


async def status(layout: Layout) -> tuple[str, datetime | None]:
    plan = await planned(FakeAdmin({"b": FakeGroup(), "a": FakeGroup(members=1)}), layout)
    facts = gather_facts(layout, plan, point_of(plan, {}))
    (found,) = (each for each in forecast(plan, facts.kept_alive, NOW) if each.group_id == "a")
    return found.status, found.until


@pytest.mark.parametrize(("cluster_id", "known"), [(CLUSTER_ID, True), ("another", False)])
async def test_what_another_connection_keeps_alive_is_kept_alive(tmp_path: Path, cluster_id: str, known: bool) -> None:
    """One connection may only commit and the other one only delete: each has its folder in the storage."""
    layout = layout_in(tmp_path)
    kept_alive(layout, NOW - 9 * DAY, 6 * DAY)
    kept_alive(Layout(tmp_path, "standby"), NOW - DAY, 6 * DAY, cluster_id)
    assert (await status(layout))[1] == NOW + (5 if known else -3) * DAY


async def test_what_is_remembered_for_less_since_the_last_run_is_not_called_safe_by_the_run_before(
    tmp_path: Path,
) -> None:
    """The brokers' retention was shortened from 60 days to 7, and no snapshot tells it."""
    layout = layout_in(tmp_path)
    for days, retention in ((12, 60), (10, 61), (8, 7)):
        kept_alive(layout, NOW - days * DAY, retention * DAY)
    assert await status(layout) == ("in use", NOW - DAY)
    assert Ledger(layout, CLUSTER_ID).wanted()["a"].until == NOW + 51 * DAY, (
        "a clean-up spares it for as long as it did"
    )
