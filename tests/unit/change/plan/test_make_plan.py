import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.evidence import Evidence, recorded_sentence
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction, RuleMatcher, facts_of
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.ledger import Known
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.ledger.verdicts import JudgedBy
from airflow_kafka_groups.observe.fingerprint import fingerprint
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, broker_error, offsets_of, timeout
from tests.fakes.snapshot_groups import groups_in
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, planned, snapshot, snapshot_of


def reasons(plan: DeletionPlan) -> dict[str, str]:
    return {group.group_id: group.verdict for group in plan.kept}


async def test_a_plan_holds_what_is_stale_and_a_reason_for_all_else(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("busy", ("t", 0, 5), state=GroupState.STABLE, members=1)
    admin.add("connect-sink", ("t", 0, 5))
    admin.add("dead", ("t", 0, 5), ("t", 1, 6))
    plan = await planned(admin, layout_in(tmp_path))
    assert plan.group_ids == ["dead"]
    assert reasons(plan) == {"busy": "live", "connect-sink": "protected"}
    (group,) = plan.groups
    assert group.fingerprint == fingerprint(offsets_of("dead", ("t", 0, 5), ("t", 1, 6)))
    assert (group.partitions, group.lag, group.reason) == (2, 7, "idle for 9 days")
    counts = {name: count for name, count in plan.counts.items() if count}
    assert counts == {"found": 3, "live": 1, "stale": 2, "protected": 1, "planned": 1}
    assert plan.warnings == ()


@pytest.mark.parametrize(("seconds", "warned"), [(7, True), (3_599, True), (3_600, False), (604_800, False)])
async def test_an_idle_time_that_looks_like_days_is_warned_of(tmp_path: Path, seconds: float, warned: bool) -> None:
    """Who types 7 for days gets groups that were restarted a moment ago: the approver has to see it."""
    admin = FakeAdmin()
    admin.add("dead", ("t", 0, 5))
    plan = await planned(admin, layout_in(tmp_path), replace(POLICY, min_idle_seconds=seconds))
    assert [("min_idle_seconds" in warning) for warning in plan.warnings] == [True] * warned


async def test_a_plan_may_be_empty(tmp_path: Path) -> None:
    plan = await planned(FakeAdmin(), layout_in(tmp_path))
    assert (plan.groups, plan.kept, plan.warnings) == ((), (), ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"idle_seconds": 3_599.9}, "idle for 59min 59s; the policy requires 1h"),
        ({"idle_since": NOW - timedelta(minutes=59)}, "the policy requires 1h"),
        ({"idle_since": NOW + timedelta(days=1)}, "idle for 0s; the policy requires 1h"),
        ({"idle_seconds": None}, "lacks the group's idle time"),
        ({"idle_seconds": float("nan")}, "lacks the group's idle time"),
        ({"idle_seconds": float("inf")}, "lacks the group's idle time"),
        ({"idle_since": None}, "lacks the group's idle time"),
        ({"observations": 1}, "the policy requires 2"),
        ({"observed_at": NOW - timedelta(days=1)}, "another observation"),
    ],
)
async def test_a_stale_verdict_is_checked_again(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    reader = await snapshot_of(tmp_path, "dead")
    plan = make_plan(verdicts_of(judge(reader, **changes)), reader, POLICY, LATER)
    assert plan.groups == ()
    assert [(group.verdict, reason in group.reason) for group in plan.kept] == [("doubt", True)]


async def test_exactly_what_the_policy_requires_is_enough(tmp_path: Path) -> None:
    reader = await snapshot_of(tmp_path, "dead")
    (group,) = groups_in(reader)
    least = {"idle_seconds": 3_600.0, "idle_since": group.observed_at - timedelta(hours=1), "observations": 2}
    assert make_plan(verdicts_of(judge(reader, **least)), reader, POLICY, LATER).group_ids == ["dead"]


@pytest.mark.parametrize(
    ("at", "until", "kept"),
    [
        (timedelta(minutes=-30), timedelta(minutes=-10), True),
        (timedelta(days=-3), timedelta(days=4), True),
        (timedelta(days=-8), timedelta(days=-1), False),
    ],
    ids=["the idle time counts from the run", "the run still has its effect", "long ago"],
)
async def test_a_group_that_is_kept_alive_is_not_planned(
    at: timedelta, until: timedelta, kept: bool, tmp_path: Path
) -> None:
    reader = await snapshot_of(tmp_path, "dead", "kept")
    runs = {"kept": KeptAlive(NOW + at, NOW + until)}
    plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER, known=Known(kept_alive=runs))
    assert set(plan.group_ids) == ({"dead"} if kept else {"dead", "kept"})
    assert reasons(plan) == ({"kept": "excluded"} if kept else {})


@pytest.mark.parametrize(
    "facts",
    [
        {"type": GroupType.SHARE},
        {"type": GroupType.STREAMS},
        {"protocol_type": "connect"},
        {"protocol_type": "share"},
        *({"state": state} for state in GroupState if state is not GroupState.EMPTY),
    ],
)
async def test_what_the_snapshot_says_against_it_outweighs_the_verdict(facts: dict[str, Any], tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5), **facts)
    reader = await snapshot(admin, layout_in(tmp_path))
    plan = make_plan(verdicts_of(judge(reader, verdict="stale")), reader, POLICY, LATER)
    assert plan.groups == ()
    named = facts.get("type") in (GroupType.SHARE, GroupType.STREAMS)
    assert reasons(plan) == {"g": "by_rule" if named else "doubt"}


@pytest.mark.safety
@pytest.mark.parametrize("kind", [GroupType.SHARE, GroupType.STREAMS])
async def test_a_share_or_streams_group_is_planned_only_by_a_rule_that_names_its_type(
    kind: GroupType, tmp_path: Path
) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5), type=kind, protocol_type=kind.value)
    reader = await snapshot(admin, layout_in(tmp_path))
    verdicts = verdicts_of(judge(reader))
    plain = Rule(name="r", action=RuleAction.DELETE, min_idle_seconds=1.0, min_observations=2)
    of_topic = replace(plain, name="t", match=Match(topics=("hidden",)))
    named = replace(plain, match=Match(types=(kind.value,)))
    last = replace(plain, name="default", action=RuleAction.KEEP)

    def planned_by(*rules: Rule) -> list[str]:
        return list(make_plan(verdicts, reader, replace(POLICY, rules=(*rules, last)), LATER).group_ids)

    of_others = replace(named, match=Match(types=("classic",)))
    assert [planned_by(plain), planned_by(plain, named), planned_by(of_others)] == [[], [], []]
    assert [planned_by(named), planned_by(of_topic, named)] == [["g"], ["g"]]
    ruling = RuleMatcher((of_topic, named, last)).rule_for(facts_of("g", NO_OWNERS, group_type=kind.value))
    other = make_plan(verdicts_of(judge(reader, group_type="classic")), reader, POLICY, LATER)
    assert reasons(other) == {"g": "doubt"}, "the snapshot's type is that which is deleted"
    assert ruling.rule.why_kept(kind.value), "where topics are not known, a rule may decide that does not name it"


@pytest.mark.parametrize(
    ("group", "error", "reason"),
    [
        (FakeGroup(members=1, state=GroupState.EMPTY), {}, "it had members, or their number is unknown"),
        (FakeGroup({}), {}, "no committed offset is visible"),
        (FakeGroup(), {"g": broker_error("GROUP_AUTHORIZATION_FAILED")}, "could not be read: .*AUTHORIZATION_FAILED"),
    ],
    ids=["a member of an Empty group", "no offset", "not readable"],
)
async def test_a_group_that_contradicts_its_verdict_is_kept(
    group: FakeGroup, error: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    admin = FakeAdmin({"g": group})
    admin.offset_errors, admin.without_states = error, group.members > 0
    reader = await snapshot(admin, layout_in(tmp_path))
    plan = make_plan(verdicts_of(judge(reader, verdict="stale")), reader, POLICY, LATER)
    assert plan.groups == ()
    assert re.match(reason, plan.kept[0].reason)


async def test_groups_on_one_side_only_are_kept(tmp_path: Path) -> None:
    reader = await snapshot_of(tmp_path, "a", "b")
    of_a = judge(reader)[0]
    plan = make_plan(verdicts_of([of_a._replace(group_id="elsewhere")]), reader, POLICY, LATER)
    assert plan.groups == ()
    assert reasons(plan) == {"elsewhere": "doubt"}
    assert (plan.counts["unjudged"], len(plan.warnings)) == (2, 1)
    with pytest.raises(PlanError, match="two verdicts"):
        make_plan(verdicts_of([of_a, of_a]), reader, POLICY, LATER)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("missing_brokers", {3: timeout()}, r"incomplete .*: 3\)"),
        ("cluster", None, "lacks the id of its Kafka cluster"),
    ],
)
async def test_a_snapshot_that_is_incomplete_or_of_an_unnamed_cluster_makes_no_plan(
    name: str, value: Any, message: str, tmp_path: Path
) -> None:
    admin = FakeAdmin({"g": FakeGroup()})
    setattr(admin, name, value)
    reader = await snapshot(admin, layout_in(tmp_path))
    with pytest.raises(PlanError, match=message):
        make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)


async def test_where_topics_may_be_hidden_a_plan_is_made_only_if_that_is_allowed(tmp_path: Path) -> None:
    """Brokers leave topics that a user may not describe out of a group's offsets, without an error."""
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))
    admin.sees_topics = False
    reader = await snapshot(admin, layout_in(tmp_path))
    with pytest.raises(PlanError, match="allow_hidden_topics"):
        make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)
    plan = make_plan(verdicts_of(judge(reader)), reader, replace(POLICY, allow_hidden_topics=True), LATER)
    assert plan.group_ids == ["g"]


@pytest.mark.parametrize(
    ("after", "message"), [(timedelta(days=1, seconds=1), "older"), (-timedelta(hours=1), "future")]
)
async def test_the_picture_has_to_be_current(after: timedelta, message: str, tmp_path: Path) -> None:
    reader = await snapshot(FakeAdmin(), layout_in(tmp_path))
    with pytest.raises(PlanError, match=message):
        make_plan(verdicts_of([]), reader, POLICY, NOW + after)


async def test_a_plan_ages_with_its_picture(tmp_path: Path) -> None:
    reader = await snapshot(FakeAdmin(), layout_in(tmp_path))
    plan = make_plan(verdicts_of([]), reader, POLICY, LATER)
    assert plan.expires_at == reader.manifest.started_at + timedelta(days=1)


async def test_caps_take_the_longest_idle_and_say_so(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for number in range(10):
        admin.add(f"g{number}", ("t", 0, 5))
    layout = layout_in(tmp_path)
    capped = await planned(admin, layout, replace(POLICY, max_groups=3))
    assert capped.group_ids == ["g9", "g8", "g7"]
    assert (capped.counts["over_cap"], reasons(capped)["g6"]) == (7, "over_cap")
    assert len(capped.warnings) == 1
    shared = await planned(admin, layout, replace(POLICY, max_share=0.25))
    assert shared.group_ids == ["g9", "g8"]
    assert re.search("merely down", shared.warnings[0])
    exact = await planned(admin, layout, replace(POLICY, max_share=1.0, max_groups=10))
    assert (len(exact.groups), exact.warnings) == (10, ())


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 60), st.floats(0.01, 1))
def test_no_plan_is_larger_than_its_caps(stale: int, others: int, max_groups: int, max_share: float) -> None:
    groups = [Ranked(f"g{number}", float(number % 7), None) for number in range(stale)]
    found = stale + others
    policy = PlanPolicy(max_groups=max_groups, max_share=max_share)
    chosen, over, warnings = capped(groups, found, policy)
    assert len(chosen) <= max_groups
    assert len(chosen) <= found * max_share + 1e-6
    assert {group.group_id for group in chosen} | {group.group_id for group in over} == {g.group_id for g in groups}
    assert bool(over) == bool(warnings)
    left = {group.group_id for group in over}
    shortest = min((group.idle_seconds or 0 for group in chosen), default=0)
    assert all((group.idle_seconds or 0) <= shortest for group in groups if group.group_id in left and chosen)


async def test_a_forecast_is_in_the_plan_and_decides_nothing(tmp_path: Path) -> None:
    reader = await snapshot_of(tmp_path, "a")
    forecast = {"lag_trend": 1e9, "offsets_expire_by": NOW.isoformat(), "lost": 7}
    plain = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)
    told = make_plan(verdicts_of(judge(reader, forecast=forecast)), reader, POLICY, LATER)
    assert told.group_ids == plain.group_ids == ["a"]
    (group,) = told.groups
    assert (group.lag_trend, group.offsets_expire_by, group.lost, group.lag_unknown) == (1e9, NOW, 7, None)
    assert DeletionPlan.from_json(json.loads(json.dumps(told.to_json())), told.body) == told
    assert plain.groups[0].lag_trend is None


UNTIL = NOW + timedelta(minutes=5)  # the snapshot ended before that


def judged_by(gap: float | None = None, until: datetime | None = None, since: datetime | None = None) -> JudgedBy:
    evidence = Evidence(commits_until=until, commits_since=since, not_read="" if until else "hidden")
    return JudgedBy(max_gap_seconds=gap, evidence=evidence)


def plan_by(reader: SnapshotReader, policy: PlanPolicy, how: JudgedBy) -> DeletionPlan:
    return make_plan(verdicts_of(judge(reader), how), reader, policy, LATER)


@pytest.mark.safety
@pytest.mark.parametrize(
    ("gap", "shown"),
    [
        (None, "an unknown --max-gap-seconds"),
        (0.0, "--max-gap-seconds 0 (none)"),
        (7_200.5, "--max-gap-seconds 7200.5;"),
    ],
)
@pytest.mark.promise(1)
async def test_nothing_is_planned_by_a_job_that_bridged_longer_gaps(
    gap: float | None, shown: str, tmp_path: Path
) -> None:
    reader = await snapshot_of(tmp_path, "a")
    strict = replace(POLICY, max_gap_seconds=7_200)
    with pytest.raises(PlanError, match=re.escape(shown)):
        plan_by(reader, strict, judged_by(gap))
    assert plan_by(reader, strict, judged_by(7_200)).group_ids == ["a"]
    assert plan_by(reader, strict, judged_by(60)).group_ids == ["a"]
    assert plan_by(reader, POLICY, judged_by(gap)).group_ids == ["a"]


@pytest.mark.safety
@pytest.mark.promise(1)
async def test_nothing_is_planned_without_the_log_of_commits_where_the_policy_requires_it(tmp_path: Path) -> None:
    reader = await snapshot_of(tmp_path, "a")
    required = replace(POLICY, require_commit_log=True)
    began, ended = reader.manifest.started_at, reader.manifest.observed_at
    enough = began - timedelta(seconds=POLICY.min_idle_seconds)
    second = timedelta(seconds=1)
    for judged, why in (
        (judged_by(), "was not read: hidden"),
        (judged_by(until=ended - second), "only, before the snapshot ended"),
        (judged_by(until=ended, since=enough + second), "on only, less than the idle time"),
        (JudgedBy(), "the job did not report it"),
    ):
        with pytest.raises(PlanError, match=rf"{why}.*require_commit_log"):
            plan_by(reader, required, judged)
        assert why in recorded_sentence(plan_by(reader, POLICY, judged).evidence)
    for since in (None, enough):
        assert plan_by(reader, required, judged_by(until=ended, since=since)).group_ids == ["a"]


async def test_the_plan_records_what_the_judgement_rests_on(tmp_path: Path) -> None:
    reader = await snapshot(FakeAdmin(), layout_in(tmp_path))
    plan = plan_by(reader, POLICY, judged_by(until=UNTIL))
    assert (
        recorded_sentence(plan.evidence)
        == "the history of snapshots and the log of commits until 2026-03-01 12:05:00 UTC"
    )
    assert plan.to_json()["evidence"]["commits_until"] == UNTIL.isoformat()
    assert DeletionPlan.from_json(json.loads(json.dumps(plan.to_json())), plan.body) == plan
    without = plan_by(reader, POLICY, judged_by())
    assert (
        recorded_sentence(without.evidence) == "the history of snapshots only; the log of commits was not read: hidden"
    )
    assert without.digest != replace(without, evidence=plan.evidence).digest


@pytest.mark.parametrize(("share", "number"), [(0.29, 29), (0.57, 57), (0.58, 58), (0.07, 7)])
def test_a_share_is_not_exceeded_by_what_it_is_of_a_hundred(share: float, number: int) -> None:
    """0.29 of 100 is 28.999999999999996 to Python."""
    groups = [Ranked(f"g{n}", 1.0, None) for n in range(number + 1)]
    policy = PlanPolicy(max_share=1.0, refuse_share=share)
    assert len(capped(groups[:number], 100, policy)[0]) == number
    with pytest.raises(PlanError, match=f"{number + 1} of 100 groups would be planned, more than .* {share} allows"):
        capped(groups, 100, policy)
    floors = SiteFloors(max_share=share)
    floors.require_share(number, 100, dry_run=False)
    with pytest.raises(PlanError, match="groups are named"):
        floors.require_share(number + 1, 100, dry_run=False)
