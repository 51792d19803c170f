"""Batches of a stream of changes, its restarts, and two streams in one folder: none takes what another one saw."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.spark.source.stream import Bucket, ChangeState
from tests.spark.source.streams import BEGIN, Position, latest, rows, stream
from tests.spark.source.test_source_stream import NOTHING, look

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

MOVES = ("change", "previous_offset", "committed_offset")
NEW = [("new", None, 1)]
OF_A_DRIVER_THAT_DIED = look(("of a driver that died", 0, 1, None, ""))


def offset_of(batch: int) -> Position:
    return {"batch": batch, "buckets": 4, "stream": 7, "driver": 8} if batch else BEGIN


async def test_a_repeated_batch_gives_what_it_saw_and_a_group_that_fails_stays_as_it_was(tmp_path: Path) -> None:
    async with stream(tmp_path, "g", failures="report") as of:
        reader = of.reader()

        async def batch(start: int) -> list[tuple[object, ...]]:
            return await rows(reader, offset_of(start), offset_of(start + 1), *MOVES)

        of.offset, of.more[("t", 1)] = 5, (1, ErrorCode.none)
        new = [("new", None, 1), ("new", None, 5)]
        assert await batch(0) == new
        of.offset = 8
        assert await batch(0) == new
        of.code = ErrorCode.group_authorization_failed
        assert await batch(1) == []
        of.code, of.more[("t", 1)] = ErrorCode.none, (1, ErrorCode.topic_authorization_failed)
        assert await batch(2) == []
        of.more[("t", 1)] = (1, ErrorCode.none)
        assert await batch(3) == [("moved", 5, 8)]
        reader.commit(offset_of(4))
        assert sorted(os.listdir(tmp_path)) == ["batch-3-7-8", "batch-4-7-8"]
        lost = Bucket(0, offset_of(1), offset_of(2), NOTHING)
        with pytest.raises(ConfigurationError, match=r"what batch 1 saw is not there .*restart the query"):
            await asyncio.to_thread(reader.read, lost)


async def test_there_are_as_many_buckets_as_the_groups_need_tasks_and_none_loses_a_group(tmp_path: Path) -> None:
    group_ids = {f"g-{number}" for number in range(40)}
    async with stream(tmp_path, *group_ids) as of:
        position, seen = BEGIN, []
        for at_most, count in ((100, 1), (10, 4), (3, 16), (7, 8), (40, 1)):
            reader, number = of.reader(groups_per_partition=str(at_most)), position["batch"] + 1
            ChangeState(str(tmp_path)).save(0, {"batch": number}, OF_A_DRIVER_THAT_DIED)
            end = await latest(reader, position)
            assert end == {**end, "batch": number, "buckets": count, "cluster": "prod"}
            buckets = await asyncio.to_thread(reader.partitions, position, end)
            assert len(buckets) == count
            planned = {name for bucket in buckets for name in bucket.chunk.groups["group_id"].to_pylist()}
            assert planned == group_ids
            seen.append([change for (change,) in await rows(reader, position, end, "change")])
            position, of.offset = end, of.offset + (number in (2, 4))
        assert seen == [["new"] * 40, [], ["moved"] * 40, [], ["moved"] * 40]


async def test_groups_of_one_task_are_read_by_the_driver_and_nothing_changed_is_no_batch(tmp_path: Path) -> None:
    async with stream(tmp_path, "g") as of:
        reader = of.reader()
        ChangeState(str(tmp_path)).save(0, {"batch": 1}, OF_A_DRIVER_THAT_DIED)
        first = await latest(reader)
        for _ in range(2):
            assert await rows(reader, BEGIN, first, "change", "group_id") == [("new", "g")]
        assert of.asked == 1, "the task finds what the driver observed"
        assert await latest(reader, first) == first
        of.cluster.groups.add("h")
        of.offset = 2
        second = await latest(reader, first)
        assert second == first | {"batch": 2, "buckets": 1}
        found = await rows(reader, first, second, "change", "group_id", "previous_offset")
        assert found == [("moved", "g", 1), ("new", "h", None)]


async def test_groups_are_not_read_more_often_than_the_interval(tmp_path: Path) -> None:
    async with stream(tmp_path, "g", min_interval_seconds="1") as of:
        reader = of.reader()
        assert reader.initialOffset() == BEGIN
        with pytest.raises(ConfigurationError, match=r"needs Spark 4\.2 or later"):
            reader.latestOffset()
        first = await latest(reader)
        assert first == {**first, "batch": 1, "buckets": 1, "cluster": "prod"}
        began, asked = time.monotonic(), 0
        while await latest(reader) == BEGIN:
            asked += 1
        assert time.monotonic() - began >= 0.9
        assert asked <= 4, "Spark asks again at once: the source waits"


async def test_a_trigger_of_the_length_of_the_interval_reads_each_time(tmp_path: Path) -> None:
    async with stream(tmp_path, "g", min_interval_seconds="1") as of:
        reader = of.reader()
        first = await latest(reader)
        reader._read_at = time.monotonic() - 0.7  # triggers are punctual, and the reading before began late
        of.cluster.groups.add("h")
        assert (await latest(reader, first))["batch"] == 2


async def test_a_query_that_begins_in_the_folder_of_another_takes_no_change_from_it(tmp_path: Path) -> None:
    """The page forbids it."""
    async with stream(tmp_path, "g") as of:
        first, second = of.reader(), of.reader()
        begun = await latest(first)
        assert await rows(first, BEGIN, begun, *MOVES) == NEW
        of.offset = 2
        other = await latest(second)
        moved = await latest(first, begun)
        assert moved["batch"] == 2, "the move is in no batch"
        assert await rows(first, begun, moved, *MOVES) == [("moved", 1, 2)]
        first.commit(moved)
        mine = {f"batch-{number}-{begun['stream']}-{begun['driver']}" for number in (1, 2)}
        assert set(os.listdir(tmp_path)) == {*mine, f"batch-1-{other['stream']}-{other['driver']}"}


@pytest.mark.safety
@pytest.mark.parametrize("at_most", ["10", "1"])
async def test_a_driver_that_was_replaced_and_wakes_up_changes_nothing_of_what_the_next_one_saw(
    tmp_path: Path, at_most: str
) -> None:
    """Both have the same checkpoint, in which only the next one's batch is: Spark refuses the other's, but later."""
    async with stream(tmp_path, "g", "h", groups_per_partition=at_most) as of:
        replaced, successor = of.reader(), of.reader()
        first = await latest(replaced)
        assert await rows(replaced, BEGIN, first, *MOVES) == NEW * 2
        of.offset = 2
        second = await latest(successor, first)
        assert await rows(successor, first, second, *MOVES) == [("moved", 1, 2)] * 2
        of.offset = 3
        await latest(replaced, first)
        third = await latest(successor, second)
        assert await rows(successor, second, third, *MOVES) == [("moved", 2, 3)] * 2, "the move to 3 is in no batch"
        successor.commit(third)
        of_drivers = {name for name in os.listdir(tmp_path) if name.startswith("batch-1-")}
        assert not of_drivers, "what earlier drivers of the stream saw is removed, too"


@pytest.mark.parametrize("at_most", ["10", "1"])
async def test_a_group_that_a_restart_leaves_out_was_not_removed(tmp_path: Path, at_most: str) -> None:
    names = ("change", "group_id")
    async with stream(tmp_path, "a-1", "a-2", "b-1", groups_per_partition=at_most) as of:
        first = await latest(of.reader())
        assert await rows(of.reader(), BEGIN, first, *names) == [("new", "a-1"), ("new", "a-2"), ("new", "b-1")]
        of.cluster.groups.remove("a-2")
        second = await latest(of.reader(include="a-*"), first)
        removed = await rows(of.reader(include="a-*"), first, second, *names)
        assert removed == [("removed", "a-2")], "b-1 is still there, and nobody asked for it"
        of.cluster.groups.remove("a-1")
        third = await latest(of.reader(), second)
        assert await rows(of.reader(), second, third, *names) == [("new", "b-1"), ("removed", "a-1")]
        repeated = await rows(of.reader(exclude="b-*"), second, third, *names)
        assert repeated == [("removed", "a-1")], "also if a batch is repeated"


@pytest.mark.parametrize("at_most", ["10", "1"])
async def test_a_restart_that_reaches_another_cluster_fails_and_removes_nothing(tmp_path: Path, at_most: str) -> None:
    async with stream(tmp_path, "prod-1", "prod-2", groups_per_partition=at_most) as of:
        position = await latest(of.reader())
        assert await rows(of.reader(), BEGIN, position, *MOVES) == NEW * 2
    async with stream(tmp_path, "prod-1", "prod-2", groups_per_partition=at_most) as of:
        end = await latest(of.reader(), position)
        assert await rows(of.reader(), position, end, "change") == []
    async with stream(tmp_path, "staging-1", "staging-2", cluster_id="staging", groups_per_partition=at_most) as of:
        said = r"bootstrap.servers: lead to .* 'staging', .* 'prod'.*checkpoint and fo"
        with pytest.raises(ConfigurationError, match=said):
            await rows(of.reader(), end, await latest(of.reader(), end), "change")


async def test_a_first_batch_that_is_repeated_on_another_cluster_fails_and_mixes_nothing(tmp_path: Path) -> None:
    names = [f"g-{number}" for number in range(8)]
    async with stream(tmp_path, *names, groups_per_partition="1") as of:
        reader = of.reader()
        begun = await latest(reader)
        await rows(reader, BEGIN, begun, "change", but=1)
    async with stream(tmp_path, *names, cluster_id="staging", groups_per_partition="1") as of:
        with pytest.raises(ConfigurationError, match="the stream has observed 'prod'"):
            await rows(of.reader(), BEGIN, begun, "change")


async def test_a_first_batch_without_groups_reads_none_that_the_second_returns_again(tmp_path: Path) -> None:
    async with stream(tmp_path) as of:
        reader = of.reader()
        assert await latest(reader) == BEGIN
        of.cluster.groups.add("g")  # Spark makes a batch of the first offset, whichever it is
        assert await rows(reader, BEGIN, BEGIN, "change") == []
        assert await rows(reader, BEGIN, await latest(reader), "change", "group_id") == [("new", "g")]
