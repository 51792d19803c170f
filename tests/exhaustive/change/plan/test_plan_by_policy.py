"""A plan by a policy file: each group by its own rule, within the limits of both, with families that grow."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.plan.question import with_families
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.judge.evidence import Evidence
from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy, PolicySource
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, least_idle_times, load_plan, save_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.verdicts import JudgedBy
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.report.html import render_report
from tests.exhaustive.change.plan.by_policy import BASE, POLICY, kept, plan_by, world
from tests.fakes.groups import NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, judge, layout_in, snapshot
from tests.unit.judge.policy.files import policy_of


async def test_each_group_is_decided_by_its_own_rule(tmp_path: Path) -> None:
    admin = world("pay.x", "search.critical", "sleepy", "often", "flink-1", "connect-x", "told", "web.a")
    admin.add("reader", ("audit-log", 0, 5))
    admin.add("busy", ("t", 0, 5), state=GroupState.STABLE, members=1)
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path)
    assert kept(plan) == {
        "busy": ("live", "rest"),
        "connect-x": ("protected", "rest"),
        "flink-1": ("protected", "rest"),
        "often": ("waiting", "often"),
        "pay.x": ("waiting", "pay"),
        "reader": ("reported", "audit"),
        "search.critical": ("by_rule", "kept"),
        "sleepy": ("by_rule", "alive"),
        "told": ("notice", "told"),
    }
    (group,) = plan.groups
    assert (group.group_id, group.rule, group.owner, group.reason) == (
        "web.a",
        "rest",
        "web",
        "idle for 9 days; rule 'rest'",
    )
    owners = {each.group_id: each.owner for each in plan.kept}
    assert (owners["pay.x"], owners["search.critical"], owners["told"], owners["busy"]) == (
        "pay",
        "search",
        "someone",
        None,
    )
    reasons = {each.group_id: each.reason for each in plan.kept}
    assert reasons["pay.x"] == "idle for 9d 4s; rule 'pay' requires 30d"
    assert reasons["often"] == "seen in 3 snapshot(s); rule 'often' requires 4"
    assert reasons["sleepy"] == "rule 'alive' says keep-alive"
    assert {name: plan.counts[name] for name in ("by_rule", "reported", "waiting", "notice", "planned")} == {
        "by_rule": 2, "reported": 1, "waiting": 2, "notice": 1, "planned": 1,
    }  # fmt: skip


async def test_the_plan_is_bound_to_the_file_and_reads_back(tmp_path: Path) -> None:
    file, layout = policy_of(tmp_path, POLICY), layout_in(tmp_path)
    plan = await plan_by(file, world("web.a", "web.b"), tmp_path)
    save_plan(layout, plan)
    read = load_plan(layout, plan.plan_id)
    assert read == plan
    assert read.policy.file is not None
    assert (read.policy.file.path, read.policy.file.sha256) == (str(tmp_path / "policy.yaml"), file.digest)
    assert (read.policy.rules, read.policy.contacts) == (file.rules, {"pay": "pay@example.com", "": "all@example.com"})
    assert least_idle_times(read) == dict.fromkeys(["web.a", "web.b"], 8 * 86_400.0)
    other = replace(plan.policy, rules=(replace(file.rules[0], min_idle_seconds=1.0), *file.rules[1:]))
    assert replace(plan, policy=other).digest != plan.digest


async def test_arguments_alone_are_the_policy_with_one_rule(tmp_path: Path) -> None:
    admin = world("a", "b", "connect-x")
    reader = await snapshot(admin, layout_in(tmp_path))
    policy = PlanPolicy(min_idle_seconds=3_600, max_share=1.0)
    plan = make_plan(verdicts_of(judge(reader)), reader, policy, LATER)
    (rule,) = policy.every_rule
    assert (rule.action, rule.match.is_empty, rule.min_idle_seconds) == ("delete", True, 3_600)
    written = plan.to_json()["policy"]
    assert (written["file"], written["rules"], written["contacts"]) == (None, [], {})
    assert {*plan.planned.column("rule"), *plan.all_kept.column("rule")} == {None}


@pytest.mark.safety
@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "settling"},
        {"verdict": "live"},
        {"observed_at": NOW - timedelta(days=1)},
        {"idle_since": None},
        {"idle_seconds": None},
        {"idle_seconds": float("nan")},
        {"idle_seconds": 3_599.0},
        {"idle_since": NOW - timedelta(minutes=59)},
        {"observations": 1},
    ],
)
async def test_no_rule_makes_anything_deletable_that_the_guards_keep(changes: dict[str, Any], tmp_path: Path) -> None:
    lax = policy_of(tmp_path, "version: 1\nrules: [{name: all, action: delete, idle: 1h}]\n")
    plan = await plan_by(lax, world("g", "connect-x"), tmp_path, judged=changes)
    assert plan.groups == ()


@pytest.mark.safety
async def test_patterns_of_run_and_connection_stay_in_force(tmp_path: Path) -> None:
    lax = policy_of(tmp_path, "version: 1\nrules: [{name: all, action: delete, idle: 1h}]\n")
    base = replace(BASE, exclude=("b",), include=("a*", "b", "connect*"))
    plan = await plan_by(lax, world("a", "b", "c", "connect-x"), tmp_path, base)
    assert plan.group_ids == ["a"]
    assert {name: verdict for name, (verdict, _) in kept(plan).items()} == {
        "b": "excluded", "c": "excluded", "connect-x": "protected",
    }  # fmt: skip


def test_of_two_limits_the_stricter_one_counts(tmp_path: Path) -> None:
    limits = "limits: {max_groups: 50, max_share: 0.2, max_plan_age: 1h, max_gap: 2d, require_commit_log: true}"
    file = policy_of(tmp_path, f"version: 1\n{limits}\nrules: [{{name: all, action: delete}}]\n")
    names = ("max_groups", "max_share", "max_plan_age_seconds", "max_gap_seconds", "require_commit_log")
    lax = PlanPolicy(max_groups=9_999, max_share=1.0, max_gap_seconds=9e6).by_file(file)
    assert [getattr(lax, name) for name in names] == [50, 0.2, 3_600.0, 172_800.0, True]
    strict = PlanPolicy(max_groups=5, max_share=0.1, max_plan_age_seconds=60.0, max_gap_seconds=60.0).by_file(file)
    assert [getattr(strict, name) for name in names] == [5, 0.1, 60.0, 60.0, True]
    assert PlanPolicy().by_file(file).max_gap_seconds == 172_800.0


@pytest.mark.safety
@pytest.mark.parametrize(
    ("of_run", "of_file", "counts"), [(0.1, None, 0.1), (0.1, 0.2, 0.1), (0.2, 0.1, 0.1), (None, 0.2, 0.2)]
)
def test_of_two_shares_that_refuse_a_plan_the_smaller_one_counts(
    of_run: float | None, of_file: float | None, counts: float, tmp_path: Path
) -> None:
    """A file without one took the run's away."""
    limits = "" if of_file is None else f"limits: {{refuse_share: {of_file}}}\n"
    file = policy_of(tmp_path, f"version: 1\n{limits}rules: [{{name: all, action: delete}}]\n")
    assert PlanPolicy(refuse_share=of_run).by_file(file).refuse_share == counts


async def test_caps_of_rules_and_of_the_plan(tmp_path: Path) -> None:
    text = """\
        version: 1
        limits: {max_groups: 4}
        rules:
          - {name: few, match: {groups: "a*"}, action: delete, idle: 1d, max_groups: 2}
          - {name: share, match: {groups: "b*"}, action: delete, idle: 1d, max_share: 0.2}
          - {name: rest, action: delete, idle: 1d}
        """
    names = [*(f"a{n}" for n in range(4)), *(f"b{n}" for n in range(4)), "c0", "c1"]
    plan = await plan_by(policy_of(tmp_path, text), world(*names), tmp_path)
    assert plan.group_ids == ["c1", "c0", "b3", "b2"]
    assert {name: verdict for name, (verdict, _) in kept(plan).items()} == dict.fromkeys(
        ["a0", "a1", "a2", "a3", "b0", "b1"], "over_cap"
    )
    assert [warning.partition(";")[0] for warning in plan.warnings] == [
        "4 groups may be deleted by rule 'few'",
        "4 groups may be deleted by rule 'share'",
        "10 groups may be deleted",
    ]


@pytest.mark.safety
async def test_a_rule_s_cap_does_not_silence_that_most_of_a_cluster_looks_stale(tmp_path: Path) -> None:
    """docs/formats.md: more stale groups than ``max_share`` allows are a sign that the consumers may only be down."""
    text = """\
        version: 1
        limits: {max_share: 0.5}
        rules: [{name: few, action: delete, idle: 1d, max_groups: 2}]
        """
    plan = await plan_by(policy_of(tmp_path, text), world(*(f"a{n}" for n in range(10))), tmp_path)
    assert plan.group_ids == ["a9", "a8"]
    assert [warning.partition(":")[0] for warning in plan.warnings] == [
        "10 groups may be deleted by rule 'few'; its cap allows 2 per plan",
        "10 of 10 groups may be deleted, more than max_share 0.5 allows",
    ]
    assert "2 are planned" in plan.warnings[1]


@pytest.mark.safety
def test_the_least_idle_time_of_the_site_counts_in_every_rule(tmp_path: Path) -> None:
    policy = BASE.by_file(policy_of(tmp_path, POLICY))
    bound, sentences = SiteFloors(min_idle_seconds=5 * 86_400.0).bind(policy)
    assert {rule.name: rule.min_idle_seconds / 86_400 for rule in bound.rules if rule.deletes} == {
        "pay": 30, "often": 5, "told": 5, "rest": 8,
    }  # fmt: skip
    assert any("'often', 'told'" in sentence for sentence in sentences)
    assert SiteFloors(min_idle_seconds=5 * 86_400.0).bind(bound)[1] == ()


@pytest.mark.safety
async def test_a_plan_by_a_rule_below_the_floor_is_refused(tmp_path: Path) -> None:
    plan = await plan_by(policy_of(tmp_path, POLICY), world("often"), tmp_path, judged={"observations": 9})
    assert plan.group_ids == ["often"]
    with pytest.raises(PlanError, match="undercuts"):
        SiteFloors(min_idle_seconds=2 * 86_400.0).require(plan, dry_run=False)


@pytest.mark.safety
async def test_where_the_site_names_a_policy_nobody_goes_without_it(tmp_path: Path) -> None:
    file = policy_of(tmp_path, POLICY)
    floors = SiteFloors(policy_file=file.path)
    plan = await plan_by(file, world("web.a"), tmp_path)
    floors.require(plan, dry_run=False)
    for other in (PlanPolicy(), replace(plan.policy, file=PolicySource("/other.yaml", file.digest))):
        with pytest.raises(PlanError, match="floor policy_file"):
            floors.require(replace(plan, policy=other), dry_run=False)
        with pytest.raises(PlanError, match="floor policy_file"):
            floors.require_policy(other)
    with pytest.raises(PlanError, match="no deletion by name"):
        floors.require_named(1, dry_run=False)
    with pytest.raises(ConfigurationError, match="policy_file"):
        floors.stricter(SiteFloors(policy_file="/other.yaml"))
    assert floors.stricter(SiteFloors()).policy_file == file.path


async def test_the_log_of_commits_has_to_cover_the_longest_idle_time(tmp_path: Path) -> None:
    reader = await snapshot(world("a"), layout_in(tmp_path))
    policy = replace(BASE.by_file(policy_of(tmp_path, POLICY)), require_commit_log=True)

    def by(days: int) -> DeletionPlan:
        evidence = Evidence(commits_since=NOW - timedelta(days=days), commits_until=NOW + timedelta(hours=1))
        return make_plan(verdicts_of(judge(reader), JudgedBy(evidence=evidence)), reader, policy, LATER)

    with pytest.raises(PlanError, match="less than the idle time"):
        by(29)
    assert by(31).group_ids == ["a"]


@pytest.mark.safety
async def test_a_notice_has_to_be_old_enough_for_this_very_idle_time(tmp_path: Path) -> None:
    file, admin = policy_of(tmp_path, POLICY), world("told")
    first = await plan_by(file, admin, tmp_path)
    fingerprint = first.kept[0].fingerprint
    assert fingerprint is not None
    times: dict[str, Any] = {"marked_at": NOW - timedelta(days=5), "notified_at": NOW - timedelta(days=4)}
    mark = Notice(fingerprint=fingerprint, owner="someone", contact="all@example.com", told_seconds=1.0, **times)

    async def planned(notice: Notice) -> list[str]:
        return (await plan_by(file, admin, tmp_path, notices={"told": notice})).group_ids

    assert await planned(mark) == ["told"]
    assert await planned(replace(mark, notified_at=NOW - timedelta(days=2))) == []
    assert await planned(replace(mark, notified_at=None, told_seconds=None)) == []
    assert await planned(replace(mark, owner="another")) == []
    assert await planned(replace(mark, contact="al@example.com")) == []
    assert await planned(replace(mark, contact=None)) == [], "the message went elsewhere"
    assert await planned(replace(mark, fingerprint="0" * 64)) == []
    assert await planned(replace(mark, marked_at=NOW - timedelta(days=10))) == [], "it has been idle for 9 days only"


async def test_families_are_in_the_plan(tmp_path: Path) -> None:
    admin = world("job-1", "job-2", "job-3", "x")
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path)
    assert [(family["name"], family["groups"], family["planned"]) for family in plan.families] == [
        ("job-<number>", 3, 3)
    ]
    assert with_families(plan.planned, ["job-<number>", "x", "y"]) == ["job-3", "job-2", "job-1", "x", "y"]
    assert {group.group_id: group.family for group in plan.groups} == {
        "job-1": "job-<number>", "job-2": "job-<number>", "job-3": "job-<number>", "x": None,
    }  # fmt: skip


GROWING = """\
    version: 1
    defaults: {max_growth_per_day: 5}
    rules:
      - {name: jobs, match: {groups: "job-*"}, action: delete, idle: 1d, max_growth_per_day: 1}
      - {name: rest, action: keep}
    """


async def grown(
    folder: Path, before: timedelta | None, seen: timedelta, names: Sequence[str] = (), **how: Any
) -> DeletionPlan:
    """Plan by a snapshot whose groups were first seen at a time ``seen`` before it, after one of a time ``before``."""
    names = names or ("job-1", "job-2", "job-3", "load-1", "load-2", "old")
    layout, admin = layout_in(folder), world(*names)
    if before is not None:
        await take_snapshot(admin, layout, now=Ticking(NOW - before), **how)
    reader = await snapshot(admin, layout)
    file, history = policy_of(folder, GROWING), judge(reader)[-1]._replace(first_seen_at=NOW - timedelta(days=9))
    new = [verdict._replace(first_seen_at=NOW - seen) for verdict in judge(reader)[:-1]]
    return make_plan(verdicts_of([*new, history]), reader, BASE.by_file(file), LATER, owners=file.owners)


HOURS = timedelta(hours=1)


async def test_a_family_that_grows_faster_than_its_rule_allows_is_a_warning_and_first(tmp_path: Path) -> None:
    plan = await grown(tmp_path, 30 * HOURS, 6 * HOURS)
    (warning,) = plan.warnings
    assert warning.startswith("family 'job-<number>' grows by 2.4 groups a day, and 1 are allowed (rule 'jobs', ")
    assert [(family["name"], family.get("too_fast")) for family in plan.families] == [
        ("job-<number>", [{"rule": "jobs", "per_day": 2.4, "allowed_per_day": 1}]),
        ("load-<number>", None),
    ]
    layout = layout_in(tmp_path)
    save_plan(layout, plan)
    assert load_plan(layout, plan.plan_id).families == plan.families
    assert "too fast" in render_report(plan, now=LATER)


async def test_of_many_families_that_grow_too_fast_the_others_are_counted(tmp_path: Path) -> None:
    names = [f"job-{letter}-{number}" for letter in "abcdefghijklmnopqrstuvwxy" for number in range(3)]
    plan = await grown(tmp_path, 30 * HOURS, 6 * HOURS, [*names, "old"])
    assert (len(plan.warnings), plan.warnings[-1]) == (21, "5 more families grow faster than is allowed")


async def test_what_was_there_a_day_ago_is_not_new(tmp_path: Path) -> None:
    assert not (await grown(tmp_path, 30 * HOURS, 31 * HOURS)).warnings


@pytest.mark.parametrize(
    ("before", "how"),
    [(None, {}), (20 * HOURS, {}), (30 * HOURS, {"include": ["other*"]}), (30 * HOURS, {"group_ids": ["old"]})],
)
async def test_growth_is_not_known_without_a_snapshot_of_the_same_groups_from_a_day_ago(
    tmp_path: Path, before: timedelta | None, how: dict[str, Any]
) -> None:
    plan = await grown(tmp_path, before, 6 * HOURS, **how)
    assert plan.warnings == (
        "the growth of families is not known: there is no judged snapshot of a day before this one",
    )
    assert not [family for family in plan.families if "too_fast" in family]


@pytest.mark.safety
async def test_a_group_that_is_called_like_a_family_leaves_the_family_its_name(tmp_path: Path) -> None:
    plan = await plan_by(policy_of(tmp_path, POLICY), world("job-1", "job-<number>"), tmp_path)
    assert set(with_families(plan.planned, ["job-<number>"])) == {"job-1", "job-<number>"}
