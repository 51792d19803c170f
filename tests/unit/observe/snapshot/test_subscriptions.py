"""The tables of subscriptions and groups, and what a right that changes meanwhile leaves out."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, GroupType, MemberDescription, TopicPartition
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import GroupBlock, load_manifest, whole_groups
from airflow_kafka_groups.observe.snapshot.subscriptions import (
    Subscriptions,
    read_subscriptions,
    topics_read,
    topics_seen,
)
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.change.scene import layout_in, snapshot


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


def batch(ids: Sequence[str | None]) -> pa.RecordBatch:
    numbers = pa.array(range(len(ids)), pa.int32())
    return pa.record_batch({"group_id": pa.array(ids, pa.string()), "number": numbers})


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.integers(0, 12), max_size=5))
def test_groups_are_whole_wherever_batches_end(ids: list[str], cuts: list[int]) -> None:
    bounds = sorted({0, len(ids), *(cut for cut in cuts if cut <= len(ids))})
    blocks = list(whole_groups(batch(ids).slice(start, end - start) for start, end in pairwise(bounds)))
    sizes = [(block, pairwise([0, *block.ends])) for block in blocks]
    found = [
        (id_, end - start) for block, ends in sizes for id_, (start, end) in zip(block.group_ids, ends, strict=True)
    ]
    assert found == runs(ids)
    assert [row for block in blocks for row in block.rows["number"].to_pylist()] == list(range(len(ids)))


def runs(ids: list[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for group_id in ids:
        if found and found[-1][0] == group_id:
            found[-1] = (group_id, found[-1][1] + 1)
        else:
            found.append((group_id, 1))
    return found


def test_columns_of_a_block_by_group() -> None:
    rows = batch(["a", "a", "b", "c"]).append_column("error", pa.array([None, "x", None, "y"], pa.string()))
    block = GroupBlock(rows)
    assert (len(block), block.ends, block.first("number").to_pylist()) == (3, [2, 3, 4], [0, 2, 3])
    assert block.errors() == ["x", None, "y"]
    assert block.repeated(["A", "B", "C"]).to_pylist() == ["A", "A", "B", "C"]
    assert GroupBlock(rows.slice(0, 1)).errors() == [None]
    assert GroupBlock(rows.slice(0, 0)).repeated([]).to_pylist() == []


def test_a_row_of_no_group_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks its group id"):
        list(whole_groups([batch(["a"]), batch([None])]))


@pytest.mark.safety
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True), (False, False)])
async def test_a_snapshot_sees_all_topics_only_if_it_does_to_its_end(tmp_path: Path, before: bool, after: bool) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    admin.sees_topics = before

    def change(call: str) -> None:
        if call == "offsets":
            admin.sees_topics = after

    admin.before = change
    reader = await snapshot(admin, layout_in(tmp_path))
    assert reader.manifest.sees_all_topics is (before and after)
