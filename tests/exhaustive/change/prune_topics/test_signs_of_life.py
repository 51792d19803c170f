"""Whatever shows that a topic is in use keeps its offsets, before the run, during it, and after."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, snapshot_ids
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import time_of
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking, timeout
from tests.fakes.wanted import want
from tests.records import history_before
from tests.unit.change.prune_topics.scene import (
    HOUR,
    OLD,
    SAVED,
    cluster,
    fates,
    layout_in,
    move,
    old_offsets,
    outcomes,
    plan,
    planned,
    prune,
    ready,
    snapshots,
    subscribe,
)
from tests.unit.observe.snapshot.test_cluster_folders import Slow

pytestmark = pytest.mark.safety


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
@pytest.mark.parametrize("backed_up", [False, True])
@pytest.mark.promise(1)
async def test_whatever_changes_before_or_after_the_backup_keeps_the_topic(
    tmp_path: Path, change: Callable[[FakeAdmin], None], fate: str, *, backed_up: bool
) -> None:
    admin, layout, of = await ready(tmp_path)

    def before(call: str) -> None:
        if not backed_up or (call == "list" and layout.backup_manifest(of.plan_id).exists()):
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
    admin, layout, of = await ready(tmp_path)
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
    admin, layout, of = await ready(tmp_path)

    def before(call: str) -> None:
        if call == "delete offsets":
            subscribe(admin)

    admin.before = before
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:came_back"}
    assert old_offsets(admin) == SAVED
    admin.groups["app"]._subscribed, admin.before = frozenset({"live"}), lambda call: None
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


@pytest.mark.parametrize("sign", [subscribe, move, delete_group, fail_to_read])
async def test_a_newer_snapshot_that_ends_the_idle_time_keeps_the_topic(
    tmp_path: Path, sign: Callable[[FakeAdmin], None]
) -> None:
    admin, layout, of = await ready(tmp_path)
    positions = dict(admin.groups["app"].offsets)
    sign(admin)
    await snapshots(admin, layout, 1, first=of.created_at)
    admin.offset_errors.clear()
    admin.groups["app"] = FakeGroup(positions, members=2, subscribed=frozenset({"live"}))
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


@pytest.mark.parametrize("sign", [subscribe, move, delete_group, fail_to_read])
@pytest.mark.promise(1)
async def test_an_older_snapshot_of_another_connection_keeps_the_topic_from_plan_and_pruning(
    tmp_path: Path, sign: Callable[[FakeAdmin], None]
) -> None:
    """The history of the clean-up's own folder does not have it."""
    admin, layout, other = cluster(), layout_in(tmp_path), Layout(tmp_path, "other")
    await take_snapshot(admin, other, now=Ticking(NOW - HOUR))
    of = await planned(admin, layout)
    assert of.group_ids == ["app [old]"]
    positions = dict(admin.groups["app"].offsets)
    sign(admin)
    await take_snapshot(admin, other, now=Ticking(time_of(of.snapshot_id) - HOUR / 2))
    admin.offset_errors.clear()
    admin.groups["app"] = FakeGroup(positions, members=2, subscribed=frozenset({"live"}))
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}
    again = plan(layout, of.created_at + timedelta(minutes=1))
    assert (again.group_ids, [item.verdict for item in again.kept]) == ([], ["doubt"])


async def test_a_slow_snapshot_that_began_before_the_judged_one_counts(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    subscribe(admin)
    await take_snapshot(admin, layout, now=Slow(time_of(of.snapshot_id) - timedelta(minutes=1), 4))
    admin.groups["app"]._subscribed = frozenset({"live"})
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}


async def test_a_snapshot_that_is_taken_during_a_pruning_counts_before_the_next_request(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    subscribe(admin)
    await snapshots(admin, layout, 1, first=of.created_at)
    admin.groups["app"]._subscribed = frozenset({"live"})
    manifest = Path(str(layout.manifest(snapshot_ids(layout)[-1])))
    manifest.rename(tmp_path / "not yet")  # noqa: ASYNC240  # it is fast

    def publish(call: str) -> None:
        if call == "describe" and not manifest.exists():
            (tmp_path / "not yet").rename(manifest)

    admin.before = publish
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}
    assert old_offsets(admin) == SAVED


async def test_a_newer_snapshot_of_other_groups_means_nothing(tmp_path: Path) -> None:
    admin, layout = cluster(other=FakeGroup()), layout_in(tmp_path)
    of = await planned(admin, layout)
    await snapshots(admin, layout, 1, first=of.created_at, exclude=["app"])
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}


async def test_a_newer_snapshot_that_is_damaged_lets_nothing_be_pruned(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await snapshots(admin, layout, 1, first=of.created_at)
    newest = snapshot_ids(layout)[-1]
    assert SnapshotReader(layout, newest).manifest.subscriptions is not None
    layout.subscriptions(newest).write_bytes(b"damaged")
    with pytest.raises(SnapshotError):
        await prune(admin, layout, of)
    assert old_offsets(admin) == SAVED


async def test_a_deletion_of_the_group_since_the_plan_keeps_its_topics(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    journal = Journal(layout.base, CLUSTER_ID)
    other = journal.begin({"run_id": "r", "request_id": "another"}, of.created_at, after=history_before(journal))
    other.intend({"app": "f"}, of.created_at)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:deleted_before"}


async def test_a_keep_alive_run_since_the_plan_keeps_the_topics_also_when_it_has_ended(tmp_path: Path) -> None:
    """The idle time counts from the run on, as for groups, and the clock of this worker may be ahead of its end."""
    admin, layout, of = await ready(tmp_path)
    want(layout, "app", at=of.created_at)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:excluded"}
    assert old_offsets(admin) == SAVED


async def test_a_keep_alive_run_that_begins_during_the_run_keeps_the_topics_of_its_groups(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)

    def before(call: str) -> None:
        if call == "describe":
            want(layout, "app", at=of.created_at - 2 * HOUR)

    admin.before = before
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:excluded"}
    assert old_offsets(admin) == SAVED


async def test_a_member_that_subscribes_while_the_offsets_are_deleted_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker learns a subscription when the rebalance ends: it does not see a member that joins in that moment."""
    admin, layout, of = await ready(tmp_path)
    forget_offsets = admin.delete_consumer_group_offsets

    async def meanwhile(group_id: str, partitions: Any, **how: Any) -> None:
        await forget_offsets(group_id, partitions, **how)
        subscribe(admin)

    monkeypatch.setattr(admin, "delete_consumer_group_offsets", meanwhile)
    result = await prune(admin, layout, of)
    assert fates(result) == {"app [old]": "deleted:safe"}
    assert "a member subscribes to it by now" in result.report.warnings[-1]
