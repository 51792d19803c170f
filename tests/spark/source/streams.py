"""A stream of changes of a fake cluster's groups, read as Spark reads it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.stream import ChangesReader
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster

Position = dict[str, Any]
BEGIN: Position = {"batch": 0}


class Stream:
    """A cluster whose groups have all committed the same offset, and readers with its options."""

    def __init__(self, cluster: FakeCluster, folder: Path, options: dict[str, str]) -> None:
        self.cluster, self.asked = cluster, 0
        self.offset, self.code = 1, ErrorCode.none
        self.more: dict[tuple[str, int], tuple[int, ErrorCode]] = {}
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "state.path": str(folder)}
        self.options = given | {"min.interval.seconds": "0"} | _named(options)
        cluster.control(OFFSET_FETCH, self._answer)

    def _answer(self, broker_id: int, version: int, request: Any) -> Any:
        self.asked += 1
        groups = {group.group_id: self.code for group in request.groups}
        return answers.offset_fetch(version, groups, {("t", 0): (self.offset, ErrorCode.none), **self.more})

    def reader(self, **more: str) -> ChangesReader:
        return ChangesReader(SourceOptions.parse(self.options | _named(more)))


def _named(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


@asynccontextmanager
async def stream(folder: Path, *groups: str, cluster_id: str = "prod", **options: str) -> AsyncIterator[Stream]:
    async with FakeCluster(groups=set(groups), cluster_id=cluster_id) as cluster:
        yield Stream(cluster, folder, options)


async def latest(reader: ChangesReader, start: Position = BEGIN) -> Position:
    return await asyncio.to_thread(reader.latestOffset, start, None)


async def rows(
    reader: ChangesReader, start: Position, end: Position, *names: str, but: int | None = None
) -> list[tuple[Any, ...]]:
    """Run a batch, and return these columns of its rows.

    :param but: how many buckets are not read, before the driver is killed. Default: none.
    """
    buckets = await asyncio.to_thread(reader.partitions, start, end)
    read = [await asyncio.to_thread(reader.read, bucket) for bucket in buckets[: -but if but else None]]
    found = [row for parts in read for part in parts for row in part.to_pylist()]
    return sorted((tuple(row[name] for name in names) for row in found), key=str)
