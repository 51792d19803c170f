"""Which topics are abandoned: each doubt in the history of snapshots keeps one."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.change.plan.abandoned_topics import (
    ObservedGroup,
    ObservedTopic,
    PartlyReadGroup,
    UnreadTopic,
    judge,
)
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest, load_manifest, snapshot_ids
from airflow_kafka_groups.observe.snapshot.subscriptions import Subscriptions, read_subscriptions
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking, broker_error, timeout
from tests.fakes.snapshot_groups import NO_TABLE
from tests.unit.change.prune_topics.scene import HOUR, cluster, layout_in, snapshots, subscribe

pytestmark = pytest.mark.safety


def judged(layout: Layout, *, hours: float = 24, observations: int = 2, max_gap: timedelta | None = None) -> list[Any]:
    snapshot = SnapshotReader(layout, latest_manifest(layout).snapshot_id)
    subscribed = read_subscriptions(layout, snapshot.manifest)
    assert subscribed is not None
    return list(
        judge(layout, snapshot, subscribed.proven, enough=hours * HOUR, observations=observations, max_gap=max_gap)
    )


def old_of(layout: Layout, **how: Any) -> UnreadTopic:
    (group,) = judged(layout, **how)
    (topic,) = group.topics.values()
    assert isinstance(topic, UnreadTopic)
    return topic


async def test_a_topic_without_subscription_that_does_not_move_is_followed_back(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    await snapshots(admin, layout, 4)
    (group,) = judged(layout)
    (topic,) = group.topics.values()
    assert (topic.topic, topic.offsets.partitions, topic.observations, topic.ended_by) == ("old", 2, 4, None)
    assert group.newest.observed_at - topic.idle_since == 3 * HOUR
    assert group.moved_after == group.newest.observed_at - HOUR, "the newest movement counts"


async def test_older_snapshots_than_are_needed_are_not_read(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    await snapshots(admin, layout, 6)
    assert old_of(layout, hours=2).observations == 3
    assert old_of(layout, hours=2, observations=5).observations == 5
    first = snapshot_ids(layout)[0]
    next(iter(layout.snapshot_data(first).iterdir())).write_bytes(b"no parquet")
    assert old_of(layout, hours=2).observations == 3
    with pytest.raises(SnapshotError):
        old_of(layout)


async def test_a_group_whose_topics_stand_still_is_not_followed_back_for_ever(tmp_path: Path) -> None:
    """A year of hourly snapshots would be read every day, for a group that nothing is pruned from anyway."""
    admin, layout = cluster(), layout_in(tmp_path)
    await snapshots(admin, layout, 6)
    admin.groups["app"]._subscribed = frozenset({"still"})
    await snapshots(admin, layout, 8, first=NOW + 6 * HOUR)
    for snapshot_id in snapshot_ids(layout)[:8]:
        next(iter(layout.snapshot_data(snapshot_id).iterdir())).write_bytes(b"no parquet")
    (group,) = judged(layout, hours=2)
    assert group.topics["old"].observations == 5
    assert group.moved_after is None, "so that nothing is pruned"


async def test_a_movement_shortly_before_the_idle_time_that_is_asked_for_counts(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    await snapshots(admin, layout, 3)
    for hour in (3, 4, 5):
        await take_snapshot(admin, layout, now=Ticking(NOW + hour * HOUR))
    (group,) = judged(layout, hours=2)
    assert group.moved_after is not None
    assert group.newest.observed_at - group.moved_after == 4 * HOUR


def move(admin: FakeAdmin) -> None:
    admin.commit("app", "old", 1, 99)


def move_back(admin: FakeAdmin) -> None:
    admin.commit("app", "old", 1, 8)


def leave_out(admin: FakeAdmin) -> None:
    admin.groups["app-2"] = admin.groups.pop("app")


def come_back(admin: FakeAdmin) -> None:
    admin.groups["app"] = admin.groups.pop("app-2")


def unsubscribe(admin: FakeAdmin) -> None:
    admin.groups["app"]._subscribed = frozenset({"live"})


def fail(admin: FakeAdmin) -> None:
    admin.offset_errors["app"] = timeout()


def succeed(admin: FakeAdmin) -> None:
    admin.offset_errors.clear()


def fail_one_partition(admin: FakeAdmin) -> None:
    from airflow_kafka_groups.exceptions import PartitionOffsetsError
    from airflow_kafka_groups.kafka.models import TopicPartition
    from tests.fakes.groups import offsets_of

    errors = {TopicPartition("live", 0): broker_error("TOPIC_AUTHORIZATION_FAILED")}
    part = offsets_of("app", ("live", 1, 2), ("old", 0, 7), ("old", 1, 8))
    admin.offset_errors["app"] = PartitionOffsetsError("app", errors, part)


@pytest.mark.parametrize(
    ("once", "undone", "why"),
    [
        (subscribe, unsubscribe, "subscribed to it"),
        (move, move_back, "other offsets"),
        (leave_out, come_back, "does not have the group"),
        (fail, succeed, "could not read"),
        (fail_one_partition, succeed, "could not read"),
    ],
)
@pytest.mark.promise(1)
async def test_each_sign_of_life_and_each_doubt_ends_the_idle_time(
    tmp_path: Path, once: Callable[[FakeAdmin], None], undone: Callable[[FakeAdmin], None], why: str
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    script = {2: once, 3: undone}

    def before(hour: int) -> None:
        if hour in script:
            script[hour](admin)

    await snapshots(admin, layout, 5, before=before)
    topic = old_of(layout)
    assert (topic.observations, topic.ended_by is not None and why in topic.ended_by) == (2, True)


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.EMPTY])
async def test_what_proves_no_subscription_counts_for_nothing_and_ends_nothing(
    tmp_path: Path, state: GroupState
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)

    def restart(hour: int) -> None:
        group = admin.groups["app"]
        group.members = 0 if state is GroupState.EMPTY and hour in (1, 2) else 2
        group._state = state if hour in (1, 2) else None

    await snapshots(admin, layout, 4, before=restart)
    topic = old_of(layout)
    assert topic.observations == 2
    assert topic.ended_by is None
    assert old_of(layout, max_gap=2 * HOUR).observations == 1, "three hours without a proof"
    assert old_of(layout, max_gap=3 * HOUR).observations == 2


async def test_movement_while_the_group_was_empty_ends_the_idle_time(tmp_path: Path) -> None:
    """A consumer that assigns its own partitions commits while the group has no members."""
    admin, layout = cluster(), layout_in(tmp_path)

    def script(hour: int) -> None:
        admin.groups["app"].members = 0 if hour == 1 else 2
        if hour == 1:
            move(admin)

    await snapshots(admin, layout, 3, before=script)
    topic = old_of(layout)
    assert (topic.observations, topic.ended_by is not None and "other offsets" in topic.ended_by) == (1, True)


async def test_an_incomplete_snapshot_can_end_an_idle_time_and_never_lengthens_one(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    script: dict[int, dict[Any, Any]] = {0: {2: timeout()}, 1: {}, 2: {2: timeout()}, 3: {}}

    def before(hour: int) -> None:
        admin.missing_brokers = script[hour]

    await snapshots(admin, layout, 4, before=before)
    topic = old_of(layout)
    assert (topic.observations, topic.ended_by) == (2, None), "two of four are complete"
    first, *_, newest = snapshot_ids(layout)
    assert topic.idle_since > load_manifest(layout, first).observed_at
    assert load_manifest(layout, newest).complete


async def test_what_an_incomplete_snapshot_lacks_means_nothing(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)

    def before(hour: int) -> None:
        admin.missing_brokers = {2: timeout()} if hour == 1 else {}
        if hour == 1:
            leave_out(admin)
        if hour == 2:
            come_back(admin)

    await snapshots(admin, layout, 3, before=before)
    assert (old_of(layout).observations, old_of(layout).ended_by) == (2, None)


async def test_a_snapshot_of_other_groups_means_nothing(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.add("other")
    await snapshots(admin, layout, 2)
    await snapshots(admin, layout, 1, first=NOW + 2 * HOUR, group_ids=["other"])
    await snapshots(admin, layout, 1, first=NOW + 3 * HOUR, include=["oth*"])
    await snapshots(admin, layout, 1, first=NOW + 4 * HOUR, exclude=["app"])
    await snapshots(admin, layout, 1, first=NOW + 5 * HOUR)
    assert (old_of(layout).observations, old_of(layout).ended_by) == (3, None)


@pytest.mark.parametrize("how", [{"exclude": ["internal*"]}, {"include": ["app*"]}])
async def test_a_snapshot_by_patterns_that_lacks_a_group_which_they_select_shows_that_it_was_gone(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    script = {1: leave_out, 2: come_back}
    await snapshots(admin, layout, 4, before=lambda hour: script[hour](admin) if hour in script else None, **how)
    topic = old_of(layout)
    assert topic.observations == 2
    assert topic.ended_by is not None
    assert "does not have the group" in topic.ended_by


async def test_snapshots_of_another_cluster_in_the_folder_are_left_out(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)

    def before(hour: int) -> None:
        admin.cluster = "another" if hour == 1 else "aBcDeFgHiJkLmNoPqRsTuV"

    await snapshots(admin, layout, 3, before=before)
    assert old_of(layout).observations == 2


@pytest.mark.parametrize(("subscribed", "observations"), [({"live"}, 2), ({"live", "old"}, 1)])
async def test_a_snapshot_that_does_not_know_its_cluster_can_only_end_an_idle_time(
    tmp_path: Path, subscribed: set[str], observations: int
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    known = admin.cluster

    def before(hour: int) -> None:
        admin.cluster = None if hour == 1 else known
        admin.groups["app"]._subscribed = frozenset(subscribed if hour == 1 else {"live"})

    await snapshots(admin, layout, before=before)
    assert old_of(layout).observations == observations


async def test_a_group_whose_other_topics_stand_still_is_not_called_moving(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.groups["app"]._subscribed = frozenset({"another"})
    await snapshots(admin, layout, 3)
    (group,) = judged(layout)
    assert sorted(group.topics) == ["live", "old"]
    assert group.moved_after is None


async def test_a_group_that_is_unreadable_now_is_left_out(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    await snapshots(admin, layout, 3, before=lambda hour: fail(admin) if hour == 2 else None)
    assert judged(layout) == []


def fake_manifest(number: int) -> SnapshotManifest:
    at = NOW - number * HOUR
    return SnapshotManifest(
        snapshot_id=f"s{number}",
        cluster="prod",
        kafka_cluster_id="k",
        started_at=at,
        observed_at=at,
        airflow_run="",
        complete=True,
        missing_brokers={},
        sees_all_topics=True,
        groups=1,
        failed_groups=0,
        rows=1,
        scope={"include": ["*"], "exclude": []},
        files=(),
        members=NO_TABLE,
        subscriptions=NO_TABLE,
    )


def seen(at: datetime, old: str, live: str) -> ObservedGroup:
    topics = {name: ObservedTopic(value, 1, True) for name, value in (("old", old), ("live", live))}
    return ObservedGroup("app", "classic", "consumer", at, None, topics)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("aab"),
        st.sampled_from("xy"),
        st.sampled_from(["live", "old", "both", None, "some live", "some old"]),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_idle_time_is_that_of_a_plain_definition(steps: list[tuple[str, str, str | None]]) -> None:
    """Look at each stretch of the history that ends now: the longest that holds is the idle time."""
    sets = {"live": frozenset({"live"}), "old": frozenset({"old"}), "both": frozenset({"live", "old"})}
    parts = {"some live": sets["live"], "some old": sets["old"]}
    history = [("a", "x", "live"), *steps]  # newest first
    group = PartlyReadGroup(
        newest=seen(NOW, "a", "x"),
        subscribed=sets["live"],
        topics={"old": UnreadTopic(topic="old", offsets=ObservedTopic("a", 1, True), idle_since=NOW)},
    )
    for number, (old, live, names) in enumerate(steps, 1):
        if group.open:
            at = NOW - number * HOUR
            proven = {"app": sets[names]} if names in sets else {}
            subscribed = Subscriptions(proven=proven, seen=proven or ({"app": parts[names]} if names else {}))
            group.look_back(seen(at, old, live), subscribed, fake_manifest(number), None)
    stretch, idle = 0, ("live", "some live", None)
    while stretch + 1 < len(history) and history[stretch + 1][0] == "a" and history[stretch + 1][2] in idle:
        stretch += 1
    counted = [number for number in range(stretch + 1) if history[number][2] == "live"]
    topic = group.topics["old"]
    assert (topic.observations, topic.idle_since) == (len(counted), NOW - counted[-1] * HOUR)
    moved = [number for number in range(1, stretch + 1) if history[number][1] != history[number - 1][1]]
    if moved and moved[0] <= counted[-1]:
        assert group.moved_after == NOW - moved[0] * HOUR
        assert group.moved_after >= topic.idle_since
    else:
        assert group.moved_after is None or group.moved_after < topic.idle_since
