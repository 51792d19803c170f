"""A pruning from the plan to the record: what is deleted, what every doubt keeps, and what a second accident does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.contracts.ids import time_of
from airflow_kafka_groups.exceptions import (
    BackupError,
    IncompleteListingError,
    OutcomeUnknownError,
    PartitionsFailedError,
    PlanError,
    SnapshotError,
    StorageError,
)
from airflow_kafka_groups.maintenance.deletion.approval.rules import ApprovalTerms
from airflow_kafka_groups.maintenance.deletion.approval.sealed import seal_answer, seal_question
from airflow_kafka_groups.maintenance.deletion.audit import read_history
from airflow_kafka_groups.maintenance.deletion.sealed_run import DeletionResult
from airflow_kafka_groups.maintenance.floors import SiteFloors
from airflow_kafka_groups.maintenance.journal.journal import Journal, RunJournal
from airflow_kafka_groups.maintenance.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.maintenance.prune_topics.prune_plan import PrunePlan
from airflow_kafka_groups.maintenance.prune_topics.service import prune_by_plan
from airflow_kafka_groups.maintenance.restore.changes import ChangeOutcome, apply_changes
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.snapshot.reader import SnapshotReader, snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout, write_json
from airflow_kafka_groups.models import GroupState, GroupType, TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, Ticking, broker_error, timeout
from tests.fakes.lease import ScriptedLease
from tests.unit.maintenance.prune_topics.scene import HOUR, cluster, kept, layout_in, plan, snapshots
from tests.unit.maintenance.scene import request
from tests.unit.maintenance.snapshot.test_later_snapshots import Slow

pytestmark = pytest.mark.safety

OLD = (TopicPartition("old", 0), TopicPartition("old", 1))
SAVED = {OLD[0]: 7, OLD[1]: 8}


async def planned(admin: FakeAdmin, layout: Layout, **how: Any) -> PrunePlan:
    return plan(layout, await snapshots(admin, layout), **how)


async def prune(admin: FakeAdmin, layout: Layout, of: PrunePlan, **how: Any) -> DeletionResult:
    """Prune by a plan; ``how`` are arguments of ``request`` and of ``prune_by_plan``."""
    terms = {name: how.pop(name) for name in ("approval", "floors", "policy") if name in how}
    how.setdefault("now", Ticking(of.created_at))
    return await prune_by_plan(admin, layout, of.plan_id, how.pop("digest", of.digest), request(**how), **terms)


async def outcomes(admin: FakeAdmin, layout: Layout, of: PrunePlan, **how: Any) -> dict[str, str]:
    return fates(await prune(admin, layout, of, **how))


def fates(result: DeletionResult) -> dict[str, str]:
    return {item.group_id: f"{item.outcome.value}:{item.code}" for item in result.report.outcomes}


def old_offsets(admin: FakeAdmin, group_id: str = "app") -> dict[TopicPartition, int]:
    return {where: offset for where, offset in admin.groups[group_id].positions.items() if where.topic == "old"}


async def test_exactly_the_planned_offsets_are_deleted_recorded_and_verified(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    result = await prune(admin, layout, of)
    assert fates(result) == {"app [old]": "deleted:safe"}
    assert (old_offsets(admin), len(admin.groups["app"].offsets), admin.deleted) == ({}, 2, [])
    assert result.verification is not None
    assert result.verification.gone == ("app [old]",)
    calls = [call for call in admin.call_names if call in ("stable offsets", "describe", "delete offsets")]
    backup, *reading, deletion, looked, again = calls[-6:]
    both = {"describe", "stable offsets"}
    assert (backup, set(reading), deletion, {looked, again}) == ("stable offsets", both, "delete offsets", both)
    record = json.loads(result.record.read_bytes())
    assert (record["what"], record["plan_id"], record["counts"]["deleted"]) == ("prune-topics", of.plan_id, 1)
    assert record["intents"].keys() == {"app [old]"}
    assert record["backup"] is not None


async def test_a_dry_run_deletes_nothing_and_backs_nothing_up(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    result = await prune(admin, layout, of, dry_run=True)
    assert fates(result) == {"app [old]": "would_delete:safe"}
    assert (old_offsets(admin), layout.backup_manifest(of.plan_id).exists()) == (SAVED, False)
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}, "it does not count as deleted"


def subscribe(admin: FakeAdmin) -> None:
    admin.groups["app"]._subscribed = frozenset({"live", "old"})


def move(admin: FakeAdmin) -> None:
    admin.commit("app", "old", 1, 9)


def commit_another_partition(admin: FakeAdmin) -> None:
    admin.commit("app", "old", 2, 9)


def rebalance(admin: FakeAdmin) -> None:
    admin.groups["app"].state = GroupState.PREPARING_REBALANCE


def empty(admin: FakeAdmin) -> None:
    admin.groups["app"].members = 0


def forget(admin: FakeAdmin) -> None:
    for where in OLD:
        del admin.groups["app"].offsets[where]


def delete_group(admin: FakeAdmin) -> None:
    del admin.groups["app"]


def to_share(admin: FakeAdmin) -> None:
    admin.groups["app"].type = GroupType.SHARE


def to_connect(admin: FakeAdmin) -> None:
    admin.groups["app"].protocol_type = "connect"


def fail_to_describe(admin: FakeAdmin) -> None:
    admin.describe_errors["app"] = timeout()


def fail_to_read(admin: FakeAdmin) -> None:
    admin.offset_errors["app"] = timeout()


def be_silent(admin: FakeAdmin) -> None:
    admin.silent.add("app")


CHANGES: list[tuple[Callable[[FakeAdmin], None], str]] = [
    (subscribe, "kept:subscribed"),
    (move, "kept:moved"),
    (commit_another_partition, "kept:moved"),
    (rebalance, "kept:not_stable"),
    (empty, "kept:not_stable"),
    (forget, "gone:gone"),
    (delete_group, "gone:gone"),
    (to_share, "kept:wrong_type"),
    (to_connect, "kept:wrong_protocol"),
    (fail_to_describe, "kept:not_described"),
    (fail_to_read, "kept:unreadable"),
    (be_silent, "kept:not_described"),
]


@pytest.mark.parametrize(("change", "fate"), CHANGES)
async def test_whatever_changed_before_the_run_keeps_the_topic(
    tmp_path: Path, change: Callable[[FakeAdmin], None], fate: str
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    change(admin)
    assert await outcomes(admin, layout, of) == {"app [old]": fate}
    assert admin.asked("delete offsets") == []


@pytest.mark.parametrize(("change", "fate"), CHANGES)
async def test_whatever_changes_after_the_backup_keeps_the_topic(
    tmp_path: Path, change: Callable[[FakeAdmin], None], fate: str
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    def before(call: str) -> None:
        if call == "list" and layout.backup_manifest(of.plan_id).exists():
            admin.before = lambda call: None
            change(admin)

    admin.before = before
    assert await outcomes(admin, layout, of) == {"app [old]": fate}
    assert admin.asked("delete offsets") == []


@pytest.mark.parametrize(
    ("change", "fate"), [item for item in CHANGES if item[1].split(":")[1] in ("subscribed", "moved")]
)
async def test_a_sign_of_life_is_remembered_by_a_cleared_task(
    tmp_path: Path, change: Callable[[FakeAdmin], None], fate: str
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    then = admin.groups["app"]
    admin.groups["app"] = FakeGroup(dict(then.offsets), members=2, subscribed=then.subscribed)
    change(admin)
    assert await outcomes(admin, layout, of) == {"app [old]": fate}
    admin.groups["app"] = then
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}
    again = plan(layout, of.created_at + timedelta(minutes=1))
    assert again.group_ids == [], "its idle time restarts for other plans, too"


async def test_the_brokers_refusal_is_a_sign_of_life(tmp_path: Path) -> None:
    """A member subscribes between the reading and the request."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    def before(call: str) -> None:
        if call == "delete offsets":
            subscribe(admin)

    admin.before = before
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:came_back"}
    assert old_offsets(admin) == SAVED
    admin.groups["app"]._subscribed, admin.before = frozenset({"live"}), lambda call: None
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


async def test_a_topic_that_is_deleted_meanwhile_is_gone(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    for where in OLD:
        admin.ends[where] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    assert await outcomes(admin, layout, of) == {"app [old]": "gone:gone"}


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (broker_error("GROUP_AUTHORIZATION_FAILED"), "failed:group_authorization_failed"),
        (broker_error("NOT_COORDINATOR"), "failed:still_there"),
        (OutcomeUnknownError("lost"), "failed:still_there"),
        (PartitionsFailedError("app", {OLD[0]: broker_error("TOPIC_AUTHORIZATION_FAILED")}), "unknown:partly_deleted"),
        (
            PartitionsFailedError("app", dict.fromkeys(OLD, broker_error("TOPIC_AUTHORIZATION_FAILED"))),
            "failed:topic_authorization_failed",
        ),
        (
            PartitionsFailedError("app", {OLD[0]: timeout(), OLD[1]: timeout()}),
            "unknown:partly_deleted",
        ),
    ],
)
async def test_each_answer_has_one_meaning(tmp_path: Path, error: Any, fate: str) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    admin.forget_errors["app"] = error
    assert await outcomes(admin, layout, of) == {"app [old]": fate}


async def test_a_lost_answer_is_settled_by_looking_again_and_never_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    forget_offsets = admin.delete_consumer_group_offsets

    async def lose(group_id: str, partitions: Any, **how: Any) -> None:
        await forget_offsets(group_id, partitions, **how)
        raise OutcomeUnknownError("the connection closed")

    monkeypatch.setattr(admin, "delete_consumer_group_offsets", lose)
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:confirmed"}
    assert admin.asked("delete offsets") == ["app"]


class Killed(BaseException):
    """Ends the process at this point."""


async def killed(admin: FakeAdmin, layout: Layout, of: PrunePlan) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011  # TaskGroups and threads wrap it
        await prune(admin, layout, of)


def restore(admin: FakeAdmin) -> None:
    for where, offset in SAVED.items():
        admin.commit("app", where.topic, where.partition, offset)


@pytest.mark.parametrize("moment", ["before the request", "after the request", "before the intent"])
@pytest.mark.parametrize("restored", [True, False])
async def test_a_process_that_dies_deletes_no_topic_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, restored: bool
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    forget_offsets, intend = admin.delete_consumer_group_offsets, RunJournal.intend

    async def die(group_id: str, partitions: Any, **how: Any) -> None:
        if moment == "after the request":
            await forget_offsets(group_id, partitions, **how)
        raise Killed

    def die_before(self: RunJournal, *arguments: Any, **more: Any) -> None:
        if moment == "before the intent":
            raise Killed
        intend(self, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(admin, "delete_consumer_group_offsets", die)
        patched.setattr(RunJournal, "intend", die_before)
        await killed(admin, layout, of)
    assert old_offsets(admin) == ({} if moment == "after the request" else SAVED)
    if restored:
        restore(admin)
    fate = {
        ("before the intent", True): "deleted:safe",
        ("before the intent", False): "deleted:safe",
        ("after the request", False): "gone:gone",
    }.get((moment, restored), "kept:deleted_before")
    assert await outcomes(admin, layout, of) == {"app [old]": fate}
    assert len(admin.asked("delete offsets")) == (1 if moment != "before the request" else 0)
    possibly = read_history(layout, CLUSTER_ID).deletions()
    assert possibly.keys() == {"app [old]"}, "an intent counts as deleted"


async def test_what_was_pruned_and_restored_is_not_pruned_by_a_cleared_task(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    restore(admin)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:deleted_before"}
    now = await snapshots(admin, layout, 1, first=of.created_at + HOUR)
    assert kept(plan(layout, now)) == {"app [old]": "doubt"}, "another plan has to watch it anew"
    now = await snapshots(admin, layout, 3, first=now + HOUR)
    assert plan(layout, now).group_ids == ["app [old]"]


async def test_a_storage_that_fails_after_the_request_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    second = FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))
    admin, layout = cluster(zap=second), layout_in(tmp_path)
    of = await planned(admin, layout)

    def fails(self: RunJournal, outcomes: Any, at: datetime, kind: str = "outcome") -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(RunJournal, "conclude", fails)
        first = await prune(admin, layout, of, chunk_size=1)
    assert sorted(fates(first).values()) == ["deleted:safe", "kept:stopped"]
    again = await outcomes(admin, layout, of)
    assert sorted(again.values()) == ["deleted:safe", "gone:gone"]


async def test_nothing_is_sent_when_the_intent_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    def fails(self: RunJournal, *arguments: Any, **more: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(RunJournal, "intend", fails)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:stopped"}
    assert old_offsets(admin) == SAVED


async def test_the_stop_switch_the_lease_and_an_old_reading_keep_the_topic(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    lease = ScriptedLease()
    lease.lose()
    assert await outcomes(admin, layout, of, lease=lease) == {"app [old]": "kept:lease_lost"}
    clock = iter(range(0, 100_000, 20))
    assert await outcomes(admin, layout, of, monotonic=lambda: float(next(clock))) == {"app [old]": "kept:too_slow"}
    (layout.root / "STOP").write_bytes(b"stop it")
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:stopped"}
    assert old_offsets(admin) == SAVED


async def test_a_request_never_leaves_later_than_its_reading_allows(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    (within,) = admin.send_within
    assert within is not None
    assert 10 < within <= 15


async def test_a_request_without_an_answer_is_given_up(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    admin.delete_hangs = True
    result = await prune(admin, layout, of, max_delete_seconds=0.05)
    assert fates(result) == {"app [old]": "failed:still_there"}
    assert read_history(layout, CLUSTER_ID).deletions().keys() == {"app [old]"}, "it may still be done"


async def test_a_plan_that_does_not_fit_prunes_nothing(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    async def refused(match: str, **how: Any) -> None:
        with pytest.raises(PlanError, match=match):
            await prune(admin, layout, of, **how)

    await refused("digest", digest="0" * 64)
    await refused("protects", protects=lambda group_id: group_id == "app")
    await refused("dry runs only", floors=SiteFloors(dry_run_only=True))
    await refused("undercuts", floors=SiteFloors(min_idle_seconds=7_201))
    await refused("log of commits", floors=SiteFloors(require_commit_log=True))
    await refused("policy_file", floors=SiteFloors(policy_file="/p"))
    await refused("expired", now=Ticking(of.expires_at))
    await refused("not approved", floors=SiteFloors(approve_above=0))
    await refused("not approved", approval=ApprovalTerms(rule="always"))
    admin.cluster = "another"
    await refused("another")
    admin.cluster = CLUSTER_ID
    admin.missing_brokers = {2: timeout()}
    with pytest.raises(IncompleteListingError):
        await prune(admin, layout, of)
    admin.missing_brokers = {}
    admin.hosts = {7: "other"}
    assert old_offsets(admin) == SAVED


async def test_an_approval_counts_topics_and_can_except_some(tmp_path: Path) -> None:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    of = await planned(admin, layout)
    asked = {"task": "approve"}
    seal_question(layout, of, asked, of.created_at)
    answer: dict[str, Any] = {
        "asked_by": asked,
        "approved": True,
        "person": {"name": "ann"},
        "responded_at": of.created_at.isoformat(),
    }
    seal_answer(layout, of, confirmed=2, excluded=["zap [old]"], **answer)
    found = await outcomes(admin, layout, of, floors=SiteFloors(approve_above=0))
    assert found == {"app [old]": "deleted:safe", "zap [old]": "kept:excluded"}


@pytest.mark.parametrize("sign", [subscribe, move, delete_group, fail_to_read])
async def test_a_newer_snapshot_that_ends_the_idle_time_keeps_the_topic(
    tmp_path: Path, sign: Callable[[FakeAdmin], None]
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    positions = dict(admin.groups["app"].offsets)
    sign(admin)
    await snapshots(admin, layout, 1, first=of.created_at)
    admin.offset_errors.clear()
    admin.groups["app"] = FakeGroup(positions, members=2, subscribed=frozenset({"live"}))
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


async def test_a_slow_snapshot_that_began_before_the_judged_one_counts(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    subscribe(admin)
    await take_snapshot(admin, layout, now=Slow(time_of(of.snapshot_id) - timedelta(minutes=1), 4))
    admin.groups["app"]._subscribed = frozenset({"live"})
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


async def test_a_newer_snapshot_of_other_groups_means_nothing(tmp_path: Path) -> None:
    admin, layout = cluster(other=FakeGroup()), layout_in(tmp_path)
    of = await planned(admin, layout)
    await snapshots(admin, layout, 1, first=of.created_at, exclude=["app"])
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}


async def test_a_newer_snapshot_that_is_damaged_lets_nothing_be_pruned(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await snapshots(admin, layout, 1, first=of.created_at)
    newest = snapshot_ids(layout)[-1]
    assert SnapshotReader(layout, newest).manifest.subscriptions is not None
    layout.subscriptions(newest).write_bytes(b"damaged")
    with pytest.raises(SnapshotError):
        await prune(admin, layout, of)
    assert old_offsets(admin) == SAVED


PRUNE = "version: 1\nlimits: {max_share: 1.0}\nrules: [{name: prune, action: prune-topics, idle: 1h}]\n"


@pytest.mark.parametrize(
    ("edited", "fate"),
    [
        (f"# a comment\n{PRUNE}", "deleted:safe"),
        (PRUNE.replace("prune-topics", "keep"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 3h"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, observations: 4"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, notice: 1d"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, approval: always"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, max_groups: 0"), "kept:policy"),
        (f"{PRUNE}protect: [app]\n", "kept:policy"),
        (PRUNE.replace("rules: [", "rules: [{name: k, match: {topics: x}, action: keep}, "), "kept:policy"),
    ],
)
async def test_an_edit_of_the_policy_can_only_keep(tmp_path: Path, edited: str, fate: str) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(edited)

    def read() -> PolicyFile:
        return load_policy(path)

    assert await outcomes(admin, layout, of, policy=read) == {"app [old]": fate}
    with pytest.raises(PlanError, match="read it"):
        await prune(admin, layout, of)


@pytest.mark.parametrize("rule", ["prune", "another"])
async def test_the_cap_of_the_rule_that_decides_by_now_counts(tmp_path: Path, rule: str) -> None:
    """Also where an edit gives the groups to another rule than the plan names."""
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(PRUNE.replace("name: prune", f"name: {rule}").replace("idle: 1h", "idle: 1h, max_groups: 1"))
    found = await outcomes(admin, layout, of, policy=lambda: load_policy(path))
    assert found == {"app [old]": "deleted:safe", "zap [old]": "kept:policy"}


async def test_the_backup_is_of_this_plan_and_nothing_replaces_it(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    manifest = json.loads(layout.backup_manifest(of.plan_id).read_bytes())
    assert (manifest["partial"], manifest["groups"], manifest["file"]["rows"]) == (True, 1, 2)
    await prune(admin, layout, of)
    assert json.loads(layout.backup_manifest(of.plan_id).read_bytes()) == manifest
    data = layout.root / "backups" / manifest["file"]["name"]
    data.write_bytes(b"damaged")
    with pytest.raises(BackupError):
        await prune(admin, layout, of)


@pytest.mark.parametrize("live", [True, False])
async def test_a_pruning_is_undone_by_a_restore_when_the_group_has_no_members(tmp_path: Path, live: bool) -> None:
    """Brokers refuse commits from outside to a group with members."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    before = dict(admin.groups["app"].offsets)
    await prune(admin, layout, of)
    admin.commit("app", "live", 0, 500)
    admin.groups["app"].members = 2 if live else 0
    changes = await propose_restore(admin, layout, of.plan_id)
    (done,) = await apply_changes(admin, changes, dry_run=False)
    assert done.outcome is (ChangeOutcome.KEPT if live else ChangeOutcome.CHANGED)
    assert (old_offsets(admin) == {}) is live
    assert admin.groups["app"].positions[TopicPartition("live", 0)] == 500, "other topics are not touched"
    if not live:
        assert {where: admin.groups["app"].offsets[where] for where in OLD} == {where: before[where] for where in OLD}


async def test_a_restore_of_topics_keeps_newer_commits_and_makes_no_group(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    admin.commit("app", "old", 0, 99)
    (change,) = await propose_restore(admin, layout, of.plan_id)
    assert change.kept is not None
    assert "used since" in change.kept
    del admin.groups["app"]
    (change,) = await propose_restore(admin, layout, of.plan_id)
    assert change.kept is not None
    assert "some topics only" in change.kept


async def test_a_pruned_group_is_no_deleted_group(tmp_path: Path) -> None:
    """The journal of deletions has both; what was pruned says nothing of the group."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    history = Journal(layout.base, CLUSTER_ID).current()
    assert (set(history.deletions()), history.of_group("app")) == ({"app [old]"}, [])
    assert [run.begun["what"] for run in history.runs] == ["prune-topics"]


async def test_a_deletion_of_the_group_since_the_plan_keeps_its_topics(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    journal = Journal(layout.base, CLUSTER_ID)
    other = journal.begin({"run_id": "r", "request_id": "another"}, of.created_at, after=journal.read())
    other.intend({"app": "f"}, of.created_at)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:deleted_before"}


async def test_a_keep_alive_run_since_the_plan_keeps_the_topics_also_when_it_has_ended(tmp_path: Path) -> None:
    """The idle time counts from the run on, as for groups, and the clock of this worker may be ahead of its end."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    record = {"format": 1, "kept_until": of.created_at.isoformat(), "groups": [{"group_id": "app"}]}
    write_json(layout.root / "changes", "20260301T140000Z-00000001-keep-alive-before.json", record)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:excluded"}
    assert old_offsets(admin) == SAVED


async def test_a_keep_alive_run_that_begins_during_the_run_keeps_the_topics_of_its_groups(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    def before(call: str) -> None:
        if call == "describe":
            record = {"format": 1, "kept_until": (of.created_at + HOUR).isoformat(), "groups": [{"group_id": "app"}]}
            write_json(layout.root / "changes", "20260301T120000Z-00000001-keep-alive-before.json", record)

    admin.before = before
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:excluded"}
    assert old_offsets(admin) == SAVED


async def test_a_member_that_subscribes_while_the_offsets_are_deleted_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker learns a subscription when the rebalance ends: it does not see a member that joins in that moment."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    forget_offsets = admin.delete_consumer_group_offsets

    async def meanwhile(group_id: str, partitions: Any, **how: Any) -> None:
        await forget_offsets(group_id, partitions, **how)
        subscribe(admin)

    monkeypatch.setattr(admin, "delete_consumer_group_offsets", meanwhile)
    result = await prune(admin, layout, of)
    assert fates(result) == {"app [old]": "deleted:safe"}
    assert "a member subscribes to it by now" in result.report.warnings[-1]


async def test_of_two_runs_at_once_one_prunes(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)
    results = await asyncio.gather(prune(admin, layout, of), prune(admin, layout, of), return_exceptions=True)
    done = [fates(each)["app [old]"] for each in results if isinstance(each, DeletionResult)]
    assert done.count("deleted:safe") == 1
    assert admin.asked("delete offsets") == ["app"]
