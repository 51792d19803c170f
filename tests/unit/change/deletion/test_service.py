from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionObserver
from airflow_kafka_groups.exceptions import ConfigurationError, IncompleteListingError, PlanError
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction
from airflow_kafka_groups.kafka.models import NAMED_TYPES, GroupState, GroupType
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.outcomes import GroupOutcome
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, Ticking, broker_error, timeout
from tests.unit.change.deletion.steps import cluster, delete, fates
from tests.unit.change.scene import LATER, POLICY, backed_up, layout_in, planned


async def test_planned_groups_are_deleted_and_all_others_are_not(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    admin.add("busy", ("t", 0, 1), state=GroupState.STABLE, members=1)
    admin.add("connect-x", ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan, backup = await backed_up(admin, layout)
    report = await delete(admin, layout, plan)
    assert fates(report) == {"a": "deleted:safe", "b": "deleted:safe"}
    assert sorted(admin.groups) == ["busy", "connect-x"]
    assert report.counts == {"deleted": 2, "would_delete": 0, "kept": 0, "gone": 0, "failed": 0, "unknown": 0}
    assert (report.plan_digest, report.backup, report.warnings) == (plan.digest, backup.path, ())


async def test_a_dry_run_makes_every_check_and_deletes_nothing(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.commit("b", "t", 0, 99)
    admin.groups["c"].members = 1
    report = await delete(admin, layout, plan, dry_run=True)
    assert fates(report) == {"a": "would_delete:safe", "b": "kept:moved", "c": "kept:has_members"}
    assert admin.asked("delete") == []
    assert len(admin.groups) == 3


async def test_a_dry_run_needs_no_backup_and_a_real_one_does(tmp_path: Path) -> None:
    admin = cluster("a")
    plan = await planned(admin, layout_in(tmp_path))
    report = await delete(admin, layout_in(tmp_path), plan, dry_run=True)
    assert fates(report) == {"a": "would_delete:safe"}
    with pytest.raises(ConfigurationError, match="back up the plan first"):
        await delete(admin, layout_in(tmp_path), plan)
    assert "a" in admin.groups


def came_alive(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 2
    admin.groups["a"].state = GroupState.STABLE


CHANGES: list[tuple[str, Callable[[FakeAdmin], object], str]] = [
    ("it has members", came_alive, "kept:has_members"),
    ("it moved", lambda admin: admin.commit("a", "t", 0, 7), "kept:moved"),
    ("a new partition", lambda admin: admin.commit("a", "t", 1, 0), "kept:moved"),
    (
        "it is rebalancing",
        lambda admin: setattr(admin.groups["a"], "state", GroupState.PREPARING_REBALANCE),
        "kept:not_empty",
    ),
    ("its offsets vanished", lambda admin: admin.groups["a"].offsets.clear(), "kept:offsets_unseen"),
    ("it is gone", lambda admin: admin.groups.pop("a"), "gone:gone"),
    ("it is silent", lambda admin: admin.silent.add("a"), "kept:not_described"),
    (
        "it may not be described",
        lambda admin: admin.describe_errors.update(a=broker_error("GROUP_AUTHORIZATION_FAILED")),
        "kept:not_described",
    ),
    (
        "it may not be read",
        lambda admin: admin.offset_errors.update(a=broker_error("GROUP_AUTHORIZATION_FAILED")),
        "kept:unreadable",
    ),
]


@pytest.mark.parametrize(("change", "fate"), [item[1:] for item in CHANGES], ids=[item[0] for item in CHANGES])
@pytest.mark.promise(1)
async def test_what_changed_since_the_backup_is_kept(
    change: Callable[[FakeAdmin], object], fate: str, tmp_path: Path
) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    change(admin)
    report = await delete(admin, layout, plan)
    assert fates(report) == {"a": fate, "b": "deleted:safe"}
    assert admin.deleted == ["b"]


@pytest.mark.promise(2)
async def test_a_group_that_is_not_in_the_backup_is_kept(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    admin.offset_errors["a"] = timeout()
    from airflow_kafka_groups.change.backup.make_backup import back_up_plan

    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    admin.offset_errors.clear()
    report = await delete(admin, layout, plan)
    assert fates(report) == {"a": "kept:not_in_backup", "b": "deleted:safe"}


@pytest.mark.promise(1)
async def test_nothing_is_deleted_by_an_incomplete_listing(tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.missing_brokers = {2: timeout()}
    with pytest.raises(IncompleteListingError):
        await delete(admin, layout, plan)
    assert "a" in admin.groups


async def test_a_plan_or_backup_that_does_not_fit_deletes_nothing(tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    with pytest.raises(PlanError, match="expired"):
        await delete(admin, layout, plan, now=Ticking(plan.expires_at))
    with pytest.raises(PlanError, match=r"synchronize this machine's clock \(NTP\)"):
        await delete(admin, layout, plan, now=Ticking(plan.created_at - timedelta(hours=1)))
    with pytest.raises(PlanError, match="not the one that was asked for"):
        await delete(admin, layout, plan, digest="0" * 64)
    admin.cluster = "another"
    with pytest.raises(PlanError, match="check the connection"):
        await delete(admin, layout, plan)
    assert "a" in admin.groups
    assert admin.asked("delete") == []


@pytest.mark.safety
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.promise(1)
async def test_a_user_who_sees_fewer_topics_than_the_plan_s_snapshot_did_deletes_nothing(
    tmp_path: Path, dry_run: bool
) -> None:
    """What the group has committed since to a hidden topic would be missing in the recheck and in the backup."""
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.sees_topics = False
    with pytest.raises(PlanError, match=f"{plan.plan_id}: this user may not describe all topics"):
        await delete(admin, layout, plan, dry_run=dry_run)
    assert ("a" in admin.groups, admin.asked("delete")) == (True, [])


@pytest.mark.safety
async def test_a_right_that_is_taken_away_during_a_run_ends_it(tmp_path: Path) -> None:
    """What a group commits to a topic that is hidden by now is in no reading, and would be in no backup."""
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)

    def take_away(call: str) -> None:
        if call == "delete":  # the second chunk has been read; the third one moves on where this user cannot see it
            admin.sees_topics = False

    admin.before = take_away
    report = await delete(admin, layout, plan, chunk_size=1)
    assert list(fates(report).values()) == ["deleted:safe", "deleted:safe", "kept:unreadable"]
    assert ("may not describe all topics any more" in report.warnings[0], len(admin.groups)) == (True, 1)


@pytest.mark.safety
@pytest.mark.parametrize("restarts", [True, False])
async def test_what_no_request_named_is_not_called_possibly_deleted(tmp_path: Path, restarts: bool) -> None:
    """The client lists groups of other types first: a broker restarts, or the group is a share group by now."""
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)

    def change(call: str) -> None:
        if call == "delete":
            admin.missing_brokers = {2: timeout()} if restarts else {}
            admin.groups["a"].type = GroupType.CLASSIC if restarts else GroupType.SHARE

    admin.before = change
    report = await delete(admin, layout, plan)
    assert fates(report) == {"a": "failed:not_listed" if restarts else "kept:changed_kind"}
    assert report.outcomes[0].reason.startswith("not sent: ")
    history = read_history(layout, CLUSTER_ID)
    assert (set(history.deletions()), "a" in admin.groups) == (set(), True)


@pytest.mark.safety
@pytest.mark.parametrize("changed", [None, "a", "s"])
async def test_types_that_were_named_are_deleted_apart_from_those_of_consumers(
    tmp_path: Path, changed: str | None
) -> None:
    """A group that has become one of the other types since its reading is kept, and stops none of its chunk."""
    admin, layout = cluster("a", "b"), layout_in(tmp_path)
    admin.add("s", ("t", 0, 5), type=GroupType.SHARE, protocol_type="share")
    terms: dict[str, Any] = {"action": RuleAction.DELETE, "min_idle_seconds": 1.0, "min_observations": 2}
    rules = Rule(name="named", match=Match(types=tuple(NAMED_TYPES)), **terms), Rule(name="default", **terms)
    plan = await planned(admin, layout, replace(POLICY, rules=rules))
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))

    def change(call: str) -> None:
        if call == "delete" and changed is not None:
            admin.groups[changed].type = GroupType.SHARE if changed == "a" else GroupType.CLASSIC

    admin.before = change
    report = await delete(admin, layout, plan)
    found = fates(report)
    if changed is not None:  # before its reading, or after it
        assert found.pop(changed) in ("kept:wrong_type", "kept:changed_kind")
    assert set(found.values()) == {"deleted:safe"}
    assert not any({"s"} < {*ids} for name, ids in admin.calls if name == "delete")


@pytest.mark.safety
async def test_a_request_that_fails_stops_the_run_for_the_other_types_too(tmp_path: Path) -> None:
    admin, layout = cluster("a", "b"), layout_in(tmp_path)
    for group_id in "st":
        admin.add(group_id, ("t", 0, 5), type=GroupType.SHARE, protocol_type="share")
    terms: dict[str, Any] = {"action": RuleAction.DELETE, "min_idle_seconds": 1.0, "min_observations": 2}
    rules = Rule(name="named", match=Match(types=tuple(NAMED_TYPES)), **terms), Rule(name="default", **terms)
    plan = await planned(admin, layout, replace(POLICY, rules=rules))
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    asked = list[str]()

    def fail(call: str) -> None:
        asked.append(call)
        if call == "delete" and asked.count("delete") == 2:
            raise timeout()

    admin.before = fail
    found = fates(await delete(admin, layout, plan, chunk_size=1))
    assert sorted(found.values()) == ["deleted:safe", "failed:still_there", "kept:stopped", "kept:stopped"]
    assert {found["s"], found["t"]} in ({"deleted:safe", "failed:still_there"}, {"kept:stopped"})


async def test_a_plan_that_allows_hidden_topics_needs_no_view_of_all(tmp_path: Path) -> None:
    admin, layout = cluster("a"), layout_in(tmp_path)
    plan = await planned(admin, layout, replace(POLICY, allow_hidden_topics=True))
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    admin.sees_topics = False
    assert fates(await delete(admin, layout, plan)) == {"a": "deleted:safe"}


@pytest.mark.promise(1)
async def test_every_chunk_is_read_a_moment_before_it_is_deleted(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c", "d", "e")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.calls.clear()
    chunks: list[Sequence[GroupOutcome]] = []
    seen: list[tuple[str, int, int]] = []

    noting = DeletionObserver(progress=lambda *seen_now: seen.append(seen_now), concluded=chunks.append)
    await delete(admin, layout, plan, chunk_size=2, observer=noting)
    first, second, third = plan.group_ids[:2], plan.group_ids[2:4], plan.group_ids[4:]
    calls = [call for call in admin.calls if call[0] in ("describe", "delete")]
    assert calls == [
        ("describe", first),
        ("describe", second),  # read ahead, while the first is deleted
        ("delete", first),
        ("describe", third),  # one chunk ahead and no more
        ("delete", second),
        ("delete", third),
        ("describe", plan.group_ids),
    ], "it looks again at the end"
    assert admin.asked("stable offsets") == [*first, *second, *third]
    assert [[item.group_id for item in chunk] for chunk in chunks] == [first, second, third]
    assert seen == [("delete", 2, 5), ("delete", 4, 5), ("delete", 5, 5)]


async def test_being_asked_to_stop_keeps_the_rest(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)

    stopping = DeletionObserver(why_stop=lambda: "an operator says so" if len(admin.deleted) == 1 else None)
    report = await delete(admin, layout, plan, chunk_size=1, observer=stopping)
    assert [item.outcome.value for item in report.outcomes] == ["deleted", "kept", "kept"]
    assert report.kept_reasons == {"stopped": 2}


async def test_a_plan_that_expires_on_the_way_keeps_the_rest(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock = Ticking(plan.expires_at - timedelta(seconds=6))
    report = await delete(admin, layout, plan, chunk_size=1, now=clock)
    assert [f"{item.outcome.value}:{item.code}" for item in report.outcomes] == [
        "deleted:safe",
        "kept:expired",
        "kept:expired",
    ]


async def test_a_repeated_run_finds_its_work_done(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    await delete(admin, layout, plan)
    again = await delete(admin, layout, plan)
    assert again.counts["gone"] == 2


async def test_an_empty_plan_deletes_nothing(tmp_path: Path) -> None:
    admin = FakeAdmin()
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    report = await delete(admin, layout, plan)
    assert report.outcomes == ()


@pytest.mark.parametrize(
    "bad", [{"chunk_size": 0}, {"chunk_size": True}, {"max_read_age_seconds": 0}, {"max_delete_seconds": -1}]
)
def test_options_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        DeletionLimits(**bad)
