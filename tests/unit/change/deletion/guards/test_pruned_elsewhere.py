"""A pruning of files, in this folder or another: what its snapshots showed of a plan's groups stays known."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.file_pruning.file_sets import FileKind
from airflow_kafka_groups.change.file_pruning.prune import PruningLimits, prune
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.prune_topics import scene as topics
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, planned, snapshot

pytestmark = pytest.mark.safety

WAITS = replace(POLICY, max_plan_age_seconds=timedelta(days=7).total_seconds())


async def seen_in_use_by_a_team(folder: Path) -> tuple[FakeAdmin, Layout, Layout, DeletionPlan]:
    """Plan a group and back it up; only another connection's snapshot shows it in use afterwards."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(folder), Layout(folder, "team")
    plan = await planned(admin, layout, WAITS)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    admin.groups["a"] = FakeGroup(members=1)
    await take_snapshot(admin, team, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"] = FakeGroup()
    return admin, layout, team, plan


async def test_what_another_connection_has_shown_in_use_is_kept_though_its_snapshots_are_pruned(tmp_path: Path) -> None:
    """A team keeps its snapshots for two days, and a plan waits for its approval for four."""
    admin, layout, team, plan = await seen_in_use_by_a_team(tmp_path)
    await take_snapshot(admin, team, now=Ticking(LATER + timedelta(days=4)))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    prune(team, limits, now=LATER + timedelta(days=4, hours=1), dry_run=False)
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(days=4, hours=2)))
    assert fates(report) == {"a": "kept:alive_before"}


@pytest.mark.parametrize(
    ("days", "of", "plan", "removed"),
    [
        (4, None, "waits", 1),
        (40, None, "waits", 2),
        (4, "another", "waits", 2),
        (40, None, "is damaged", 2),
        (4, None, "is of a newer version", 1),
    ],
    ids=["it waits", "it has expired", "of another cluster", "damaged", "of a newer version"],
)
async def test_a_snapshot_outlives_the_plans_in_other_folders_that_it_may_show_in_use(
    tmp_path: Path, days: int, of: str | None, plan: str, removed: int
) -> None:
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    known, admin.cluster = admin.cluster, of or admin.cluster
    await take_snapshot(admin, team, now=Ticking(LATER - timedelta(days=1)))
    admin.cluster = known
    header = layout.plan((await planned(admin, layout, WAITS)).plan_id)
    if plan == "is damaged":
        header.write_bytes(b"{}")
    elif plan == "is of a newer version":
        header.write_bytes(header.read_bytes().replace(b'"format": 1', b'"format": 99'))
    admin.cluster = of or admin.cluster
    for after in (timedelta(hours=1), timedelta(days=days)):
        await take_snapshot(admin, team, now=Ticking(LATER + after))
    limits, now = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1), LATER + timedelta(days=days, hours=1)
    for dry_run in (True, False):
        assert len(prune(team, limits, now=now, dry_run=dry_run).removed["snapshot"]) == removed


@pytest.mark.parametrize(("days", "removed"), [(4, 1), (40, 2)])
async def test_a_snapshot_outlives_the_newest_judgement_by_which_a_plan_may_be_made_yet(
    tmp_path: Path, days: int, removed: int
) -> None:
    """The plan was made, and carried out, after a team's snapshot that showed its group in use was pruned."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    await take_snapshot(admin, team, now=Ticking(LATER - timedelta(days=1)))
    reader = await snapshot(admin, layout)
    summary = layout.verdict_summary(reader.manifest.snapshot_id)
    write_json(summary.parent, summary.name, {"snapshot_id": reader.manifest.snapshot_id})
    for after, members in ((timedelta(hours=1), 1), (timedelta(days=days), 0)):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, team, now=Ticking(LATER + after))
    limits, now = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1), LATER + timedelta(days=days, hours=1)
    found = prune(team, limits, now=now, dry_run=False)
    if days < 7:
        plan = make_plan(verdicts_of(judge(reader)), reader, WAITS, now)
        save_plan(layout, plan)
        await back_up_plan(admin, layout, plan, now=Ticking(now))
        assert fates(await delete(admin, layout, plan, now=Ticking(now))) == {"a": "kept:alive_before"}
    assert len(found.removed["snapshot"]) == removed


async def test_no_plan_is_made_by_a_snapshot_for_which_other_folders_keep_theirs_no_longer(tmp_path: Path) -> None:
    """A team's snapshot showed the group in use, and was pruned when no plan was to be expected any more."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    reader = await snapshot(admin, layout)
    for day, members in ((1, 1), (30, 0)):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, team, now=Ticking(LATER + timedelta(days=day)))
    now, limits = LATER + timedelta(days=31), PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    long = replace(WAITS, max_plan_age_seconds=timedelta(days=90).total_seconds())
    assert prune(team, limits, now=now - timedelta(hours=1), dry_run=True).removed["snapshot"] == ()
    make_plan(verdicts_of(judge(reader)), reader, long, now - timedelta(hours=1))
    await take_snapshot(admin, team, now=Ticking(now + timedelta(days=2)))
    assert len(prune(team, limits, now=now + timedelta(days=3), dry_run=False).removed["snapshot"]) == 2
    with pytest.raises(PlanError, match="Take a new one"):
        make_plan(verdicts_of(judge(reader)), reader, long, now + timedelta(days=3))


async def test_what_another_connection_has_shown_read_is_kept_though_topics_have_no_judgement(tmp_path: Path) -> None:
    """Topics are judged by the newest snapshot itself: a plan that is made by it later looks for others since then."""
    admin, layout, team = topics.cluster(), topics.layout_in(tmp_path), Layout(tmp_path, "team")
    await take_snapshot(admin, team, now=Ticking(NOW - timedelta(days=1)))
    at = await topics.snapshots(admin, layout)
    topics.subscribe(admin)
    await take_snapshot(admin, team, now=Ticking(at + timedelta(hours=1)))
    admin.groups["app"]._subscribed = frozenset({"live"})
    now = at + timedelta(days=4)
    await take_snapshot(admin, team, now=Ticking(now))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    pruned = prune(team, limits, now=now + timedelta(minutes=1), dry_run=False)
    policy = replace(topics.POLICY, max_plan_age_seconds=WAITS.max_plan_age_seconds)
    plan = topics.plan(layout, now + timedelta(minutes=2), policy)
    assert topics.kept(plan) == {"app [old]": "doubt"}
    assert len(pruned.removed["snapshot"]) == 1


async def test_a_judged_snapshot_of_named_groups_does_not_hide_the_newest_judgement_of_all(tmp_path: Path) -> None:
    """No plan is made by it where there is another: the plan looks for what was taken since that other one."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    for hours, where, names in ((0, layout, None), (1, team, None), (72, layout, ["a"]), (96, team, None)):
        taken = await take_snapshot(admin, where, group_ids=names, now=Ticking(LATER + timedelta(hours=hours)))
        if where is layout:
            summary = layout.verdict_summary(taken.snapshot_id)
            write_json(summary.parent, summary.name, {"snapshot_id": taken.snapshot_id})
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    assert prune(team, limits, now=LATER + timedelta(days=4, hours=1), dry_run=True).removed["snapshot"] == ()


async def test_so_it_is_where_the_plan_s_connection_led_to_a_standby_meanwhile(tmp_path: Path) -> None:
    """The newest snapshot in the plan's folder is of the standby, and the plan is carried out when all is back."""
    admin, layout, team, plan = await seen_in_use_by_a_team(tmp_path)
    standby = FakeAdmin({"a": FakeGroup()})
    standby.cluster = "standby"
    await take_snapshot(standby, layout, now=Ticking(LATER + timedelta(days=2)))
    await take_snapshot(admin, team, now=Ticking(LATER + timedelta(days=4)))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    prune(team, limits, now=LATER + timedelta(days=4, hours=1), dry_run=False)
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(days=4, hours=2)))
    assert fates(report) == {"a": "kept:alive_before"}


@pytest.mark.parametrize("is_judged", [True, False])
async def test_a_snapshot_of_a_time_to_come_does_not_hide_by_which_one_a_plan_may_be_made_yet(
    tmp_path: Path, *, is_judged: bool
) -> None:
    """A clock was a year ahead. Once somebody has removed what it dated, plans are made by what was there before."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    await take_snapshot(admin, team, now=Ticking(LATER - timedelta(days=1)))
    for hours, where in ((0, layout), (1, team), (96, team), (9_000, layout)):
        taken = await take_snapshot(admin, where, now=Ticking(LATER + timedelta(hours=hours)))
        if where is layout and is_judged:
            summary = layout.verdict_summary(taken.snapshot_id)
            write_json(summary.parent, summary.name, {"snapshot_id": taken.snapshot_id})
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    found = prune(team, limits, now=LATER + timedelta(days=4, hours=1), dry_run=True)
    assert len(found.removed["snapshot"]) == 1


async def test_what_a_snapshot_by_a_clock_behind_has_shown_in_use_is_kept_though_it_is_pruned(tmp_path: Path) -> None:
    """It seemed to be older than the plan's, so it was pruned a moment before that, and the plan was carried out."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan = await planned(admin, layout, WAITS)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    for members, at in ((1, NOW - timedelta(minutes=4)), (0, LATER + timedelta(hours=1))):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, layout, now=Ticking(at))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    assert not prune(layout, limits, now=NOW + timedelta(days=2, minutes=-2), dry_run=False).removed["snapshot"]
    report = await delete(admin, layout, plan, now=Ticking(NOW + timedelta(days=2)))
    assert fates(report) == {"a": "kept:alive_before"}


async def test_a_snapshot_outlives_what_a_run_that_is_cleared_may_plan_by(tmp_path: Path) -> None:
    """A later run had judged again. The plan of the first one named its own snapshot, from before that of the team."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    reader = await snapshot(admin, layout)
    for hours, where, members in ((1, team, 1), (72, layout, 0), (96, team, 0)):
        admin.groups["a"] = FakeGroup(members=members)
        taken = await take_snapshot(admin, where, now=Ticking(LATER + timedelta(hours=hours)))
        if where is layout:
            summary = layout.verdict_summary(taken.snapshot_id)
            write_json(summary.parent, summary.name, {"snapshot_id": taken.snapshot_id})
    now = LATER + timedelta(days=4, hours=1)
    prune(team, PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1), now=now, dry_run=False)
    plan = make_plan(verdicts_of(judge(reader)), reader, WAITS, now)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(now))
    assert fates(await delete(admin, layout, plan, now=Ticking(now))) == {"a": "kept:alive_before"}


@pytest.mark.parametrize("minutes", [-30, 30])
async def test_a_clock_that_is_an_hour_ahead_removes_nothing_that_a_plan_still_goes_by(
    tmp_path: Path, minutes: int
) -> None:
    """By that clock the plan had expired; where it was carried out, it had half an hour to go."""
    admin, layout, team = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, "team")
    plan = await planned(admin, layout, replace(WAITS, max_plan_age_seconds=timedelta(days=40).total_seconds()))
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    for members, at in ((1, LATER + timedelta(hours=1)), (0, plan.expires_at - timedelta(days=1))):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, team, now=Ticking(at))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 30}, keep_newest=1)
    prune(team, limits, now=plan.expires_at + timedelta(minutes=minutes), dry_run=False)
    report = await delete(admin, layout, plan, now=Ticking(plan.expires_at - timedelta(minutes=30)))
    assert fates(report) == {"a": "kept:alive_before"}


async def test_a_plan_is_too_old_before_a_snapshot_goes_that_only_seems_older_than_its_own(tmp_path: Path) -> None:
    """A run was cleared: its plan was made in the minutes between the removal of that one and of its own snapshot."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    reader = await snapshot(admin, layout)
    for members, at in ((1, NOW - timedelta(minutes=4)), (0, LATER + timedelta(hours=1))):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, layout, now=Ticking(at))
    now, limits = NOW + timedelta(days=2, minutes=-2), PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
    prune(layout, limits, now=now, dry_run=False)
    policy = replace(POLICY, max_plan_age_seconds=timedelta(days=2).total_seconds())
    plan = make_plan(verdicts_of(judge(reader)), reader, policy, now)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(now))
    assert fates(await delete(admin, layout, plan, now=Ticking(now))) == {"a": "kept:alive_before"}
    assert len(prune(layout, limits, now=now + timedelta(days=1.5), dry_run=True).removed["snapshot"]) == 2
