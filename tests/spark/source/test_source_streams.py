"""Two streams in one folder, which the page forbids: neither takes what the other one saw for its own."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.stream import ChangesReader
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


async def test_a_query_that_begins_in_the_folder_of_another_takes_no_change_from_it(tmp_path: Path) -> None:
    offset = 1

    def answer(broker_id: int, version: int, request: Any) -> Any:
        groups = {group.group_id: ErrorCode.none for group in request.groups}
        return answers.offset_fetch(version, groups, {("t", 0): (offset, ErrorCode.none)})

    async with FakeCluster(groups={"g"}) as cluster:
        cluster.control(OFFSET_FETCH, answer)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "state.path": str(tmp_path)}
        parsed = SourceOptions.parse(options | {"min.interval.seconds": "0"})
        first, second = ChangesReader(parsed), ChangesReader(parsed)

        async def latest(reader: ChangesReader, start: dict[str, int]) -> dict[str, int]:
            return await asyncio.to_thread(reader.latestOffset, start, None)

        async def rows(reader: ChangesReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[Any, ...]]:
            (bucket,) = await asyncio.to_thread(reader.partitions, start, end)
            found = await asyncio.to_thread(reader.read, bucket)
            names = ("change", "previous_offset", "committed_offset")
            return [tuple(row[name] for name in names) for part in found for row in part.to_pylist()]

        begun = await latest(first, {"batch": 0})
        assert await rows(first, {"batch": 0}, begun) == [("new", None, 1)]
        offset = 2
        other = await latest(second, {"batch": 0})  # it finds the folder in use only when its first task runs
        moved = await latest(first, begun)
        assert moved["batch"] == 2, "the move is in no batch"
        assert await rows(first, begun, moved) == [("moved", 1, 2)]
        first.commit(moved)
        mine = {f"batch-{number}-{begun['stream']}-{begun['driver']}" for number in (1, 2)}
        assert set(os.listdir(tmp_path)) == {*mine, f"batch-1-{other['stream']}-{other['driver']}", "driver"}


@pytest.mark.safety
@pytest.mark.parametrize("groups_per_partition", [10, 1])
async def test_a_driver_that_was_replaced_and_wakes_up_changes_nothing_of_what_the_next_one_saw(
    tmp_path: Path, groups_per_partition: int
) -> None:
    """Both have the same checkpoint, in which only the next one's batch is: Spark refuses the other's, but later."""
    offset = 1

    def answer(broker_id: int, version: int, request: Any) -> Any:
        groups = {group.group_id: ErrorCode.none for group in request.groups}
        return answers.offset_fetch(version, groups, {("t", 0): (offset, ErrorCode.none)})

    async with FakeCluster(groups={"g", "h"}) as cluster:
        cluster.control(OFFSET_FETCH, answer)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "state.path": str(tmp_path)}
        options |= {"min.interval.seconds": "0", "groups.per.partition": str(groups_per_partition)}
        parsed = SourceOptions.parse(options)
        replaced, successor = ChangesReader(parsed), ChangesReader(parsed)

        async def rows(reader: ChangesReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[Any, ...]]:
            buckets = await asyncio.to_thread(reader.partitions, start, end)
            read = [await asyncio.to_thread(reader.read, bucket) for bucket in buckets]
            names = ("change", "previous_offset", "committed_offset")
            return [tuple(row[name] for name in names) for found in read for part in found for row in part.to_pylist()]

        first = await asyncio.to_thread(replaced.latestOffset, {"batch": 0}, None)
        assert await rows(replaced, {"batch": 0}, first) == [("new", None, 1)] * 2
        offset = 2
        second = await asyncio.to_thread(successor.latestOffset, first, None)
        assert await rows(successor, first, second) == [("moved", 1, 2)] * 2
        offset = 3
        await asyncio.to_thread(replaced.latestOffset, first, None)
        third = await asyncio.to_thread(successor.latestOffset, second, None)
        assert await rows(successor, second, third) == [("moved", 2, 3)] * 2, "the move to 3 is in no batch"
        successor.commit(third)
        of_drivers = {name for name in os.listdir(tmp_path) if name.startswith("batch-1-")}
        assert not of_drivers, "what earlier drivers of the stream saw is removed, too"


@pytest.mark.parametrize("groups_per_partition", [10, 1])
async def test_a_group_that_a_restart_leaves_out_was_not_removed(tmp_path: Path, groups_per_partition: int) -> None:
    def answer(broker_id: int, version: int, request: Any) -> Any:
        groups = {group.group_id: ErrorCode.none for group in request.groups}
        return answers.offset_fetch(version, groups, {("t", 0): (1, ErrorCode.none)})

    async with FakeCluster(groups={"a-1", "a-2", "b-1"}) as cluster:
        cluster.control(OFFSET_FETCH, answer)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "state.path": str(tmp_path)}
        options |= {"min.interval.seconds": "0", "groups.per.partition": str(groups_per_partition)}

        async def rows(more: dict[str, str], start: dict[str, int], end: dict[str, int]) -> list[tuple[str, str]]:
            reader = ChangesReader(SourceOptions.parse(options | more))
            buckets = await asyncio.to_thread(reader.partitions, start, end)
            read = [await asyncio.to_thread(reader.read, bucket) for bucket in buckets]
            found = [row for changed in read for part in changed for row in part.to_pylist()]
            return sorted((row["change"], row["group_id"]) for row in found)

        async def latest(more: dict[str, str], start: dict[str, int]) -> dict[str, int]:
            return await asyncio.to_thread(ChangesReader(SourceOptions.parse(options | more)).latestOffset, start, None)

        first = await latest({}, {"batch": 0})
        assert await rows({}, {"batch": 0}, first) == [("new", "a-1"), ("new", "a-2"), ("new", "b-1")]
        cluster.groups.remove("a-2")
        less = {"include": "a-*"}
        second = await latest(less, first)
        assert await rows(less, first, second) == [("removed", "a-2")], "b-1 is still there, and nobody asked for it"
        cluster.groups.remove("a-1")
        third = await latest({}, second)
        assert await rows({}, second, third) == [("new", "b-1"), ("removed", "a-1")]
        assert await rows({"exclude": "b-*"}, second, third) == [("removed", "a-1")], "also if a batch is repeated"


@pytest.mark.parametrize("groups_per_partition", [10, 1])
async def test_a_restart_that_reaches_another_cluster_fails_and_removes_nothing(
    tmp_path: Path, groups_per_partition: int
) -> None:
    options = {"with.lag": "false", "state.path": str(tmp_path), "min.interval.seconds": "0"}
    options |= {"groups.per.partition": str(groups_per_partition)}
    position: dict[str, int] = {"batch": 0}
    for cluster_id in ("prod", "prod", "staging"):
        async with FakeCluster(groups={f"{cluster_id}-1", f"{cluster_id}-2"}, cluster_id=cluster_id) as cluster:
            given = options | {"kafka.bootstrap.servers": cluster.bootstrap}
            cluster.control(
                OFFSET_FETCH,
                lambda _, version, request: answers.offset_fetch(
                    version,
                    {group.group_id: ErrorCode.none for group in request.groups},
                    {("t", 0): (1, ErrorCode.none)},
                ),
            )
            reader = ChangesReader(SourceOptions.parse(given))

            async def batch(reader: ChangesReader = reader) -> None:
                nonlocal position
                end = await asyncio.to_thread(reader.latestOffset, position, None)
                for bucket in await asyncio.to_thread(reader.partitions, position, end) if end != position else []:
                    await asyncio.to_thread(reader.read, bucket)
                position = end

            if cluster_id == "prod":
                await batch()
                continue
            with pytest.raises(
                ConfigurationError, match=r"bootstrap.servers: lead to .* 'staging', .* 'prod'.*checkpoint and fo"
            ):
                await batch()


async def test_a_first_batch_that_is_repeated_on_another_cluster_fails_and_mixes_nothing(tmp_path: Path) -> None:
    options = {"with.lag": "false", "state.path": str(tmp_path), "groups.per.partition": "1"}
    begun: dict[str, int] = {}
    for cluster_id in ("prod", "staging"):
        groups = {f"g-{number}" for number in range(8)}
        async with FakeCluster(groups=groups, cluster_id=cluster_id) as cluster:
            cluster.control(
                OFFSET_FETCH,
                lambda _, version, request: answers.offset_fetch(
                    version,
                    {group.group_id: ErrorCode.none for group in request.groups},
                    {("t", 0): (1, ErrorCode.none)},
                ),
            )
            reader = ChangesReader(SourceOptions.parse(options | {"kafka.bootstrap.servers": cluster.bootstrap}))
            if cluster_id == "prod":
                begun = await asyncio.to_thread(reader.latestOffset, {"batch": 0}, None)
                buckets = await asyncio.to_thread(reader.partitions, {"batch": 0}, begun)
                for bucket in buckets[:-1]:  # and then its driver is killed
                    await asyncio.to_thread(reader.read, bucket)
                continue
            with pytest.raises(ConfigurationError, match="the stream has observed 'prod'"):
                await asyncio.to_thread(reader.partitions, {"batch": 0}, begun)


async def test_a_first_batch_without_groups_reads_none_that_the_second_returns_again(tmp_path: Path) -> None:
    def answer(broker_id: int, version: int, request: Any) -> Any:
        groups = {group.group_id: ErrorCode.none for group in request.groups}
        return answers.offset_fetch(version, groups, {("t", 0): (1, ErrorCode.none)})

    async with FakeCluster() as cluster:
        cluster.control(OFFSET_FETCH, answer)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "state.path": str(tmp_path)}
        reader = ChangesReader(SourceOptions.parse(options | {"min.interval.seconds": "0"}))
        start = reader.initialOffset()
        assert await asyncio.to_thread(reader.latestOffset, start, None) == start
        cluster.groups.add("g")  # Spark makes a batch of the first offset, whichever it is
        assert await asyncio.to_thread(reader.partitions, start, start) == []
        end = await asyncio.to_thread(reader.latestOffset, start, None)
        (bucket,) = await asyncio.to_thread(reader.partitions, start, end)
        (new,) = await asyncio.to_thread(reader.read, bucket)
        assert [(row["change"], row["group_id"]) for row in new.to_pylist()] == [("new", "g")]


async def test_a_trigger_of_the_length_of_the_interval_reads_each_time(tmp_path: Path) -> None:
    async with FakeCluster(groups={"g"}) as cluster:
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "state.path": str(tmp_path)}
        reader = ChangesReader(SourceOptions.parse(options | {"min.interval.seconds": "1"}))
        first = await asyncio.to_thread(reader.latestOffset, {"batch": 0}, None)
        reader._read_at = time.monotonic() - 0.7  # triggers are punctual, and the reading before began late
        cluster.groups.add("h")
        assert (await asyncio.to_thread(reader.latestOffset, first, None))["batch"] == 2
