"""The table of subscriptions: what members read, and whether it is known to be all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, GroupType, MemberDescription, TopicPartition
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.observe.snapshot.subscriptions import (
    Subscriptions,
    read_subscriptions,
    topics_read,
    topics_seen,
)
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin


def member(*topics: str, **facts: Any) -> MemberDescription:
    return MemberDescription(**{"member_id": "m", "client_id": "c", "host": "h", "subscribed_topics": topics, **facts})


def group(*members: MemberDescription, state: GroupState = GroupState.STABLE) -> GroupDescription:
    return GroupDescription("g", state, GroupType.CLASSIC, "consumer", "range", 1, members)


def test_all_that_any_member_reads_counts() -> None:
    assigned = member("b", assignment=(TopicPartition("c", 0),))
    assert topics_read(group(member("a"), assigned)) == frozenset({"a", "b", "c"})


@pytest.mark.parametrize(
    ("described", "why"),
    [
        (group(member("a"), state=GroupState.PREPARING_REBALANCE), "its state is PreparingRebalance"),
        (group(member("a"), state=GroupState.EMPTY), "its state is Empty"),
        (group(), "no members"),
        (group(member("a"), member(subscribed_topics=None)), "cannot be read"),
        (group(member("a", assignment_known=False)), "the assignment of member 'm' cannot be read"),
        (group(member("a"), member("b", subscribed_pattern="a.*")), "pattern"),
        (group(member("a"), member()), "may subscribe by a pattern"),
    ],
)
def test_what_is_not_known_of_one_member_is_not_known_of_the_group(described: GroupDescription, why: str) -> None:
    found = topics_read(described)
    assert isinstance(found, str)
    assert why in found


async def test_a_snapshot_has_them_complete_however_many_they_are(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(), Layout(tmp_path, "prod")
    many = frozenset(f"t{number:03}" for number in range(300))
    admin.add("big", ("t000", 0, 1), members=12, subscribed=many)
    admin.add("asleep", ("t000", 0, 1))
    admin.add("busy", ("t000", 0, 1), members=1, state=GroupState.PREPARING_REBALANCE, subscribed=frozenset({"t000"}))
    snapshot_id = (await take_snapshot(admin, layout)).snapshot_id
    manifest = load_manifest(layout, snapshot_id)
    found = read_subscriptions(layout, manifest)
    assert found == Subscriptions(proven={"big": many}, seen={"big": many, "busy": frozenset({"t000"})})
    path = layout.subscriptions(snapshot_id)
    path.write_bytes(b"")
    with pytest.raises(SnapshotError, match="damaged"):
        read_subscriptions(layout, manifest)


@pytest.mark.parametrize(
    "described",
    [
        group(member("a"), state=GroupState.RECONCILING),
        group(member("a"), member(subscribed_topics=None)),
        group(member("a", assignment_known=False)),
        group(member("a"), member("a", subscribed_pattern="b.*")),
        group(member(assignment=(TopicPartition("a", 0),)), member(subscribed_topics=None)),
    ],
)
def test_what_is_known_of_one_member_is_seen(described: GroupDescription) -> None:
    assert topics_seen(described) == {"a"}
