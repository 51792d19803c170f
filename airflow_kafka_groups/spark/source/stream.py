"""The stream of changes: commits that are new, moved or removed since the last micro-batch. See docs/spark/source.md.

Each micro-batch reads all groups and stores what it saw below ``state.path``, a file for each bucket: a batch that is
repeated finds it and returns the same rows. The stream's own offset is the number of the batch, of its buckets, of the
stream and of the driver that planned it, and the cluster's id. Of two drivers with one checkpoint, Spark records the
batch of one only: its offset says whose observations count. The number of buckets is a power of two, so that every
bucket of one batch finds its groups in few buckets of another.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
import uuid
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.source.options import CHANGE_COLUMNS, KEYS, SOURCE_COLUMNS, VALUES, SourceOptions
from airflow_kafka_groups.spark.source.reader import Chunk, PushedFilters, fetch, list_in_scope, run
from airflow_kafka_groups.storage.arrow_values import as_column
from airflow_kafka_groups.storage.schemas import arrow_schema

_WAIT_SECONDS = 0.5
Offset = Mapping[str, Any]
_file_system = cache(fs.FileSystem.from_uri)
STREAM, DRIVER, CLUSTER = "stream", "driver", "cluster"
"""What an offset has beside its batch: the number of the stream, that of the driver, and the id of the cluster."""


class ChangeState:
    """The observations of batches.

    They are in ``<folder>/batch-<number>-<stream>-<driver>/bucket-<number>.<random>.parquet``, by the offset of their
    batch: a driver that was replaced and wakes up does not touch what the next one saw.

    :param folder: path or URI, as supported by pyarrow's file systems.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def unusable(self, why: str) -> ConfigurationError:
        """Return the error of a folder that cannot be used."""
        return ConfigurationError("state.path", self._folder, why)

    def load(self, bucket: int, offset: Offset) -> Any:
        """Return a batch's observations of a bucket; ``None`` if there are none.

        Raises ``ConfigurationError`` if two tasks saw different things.
        """
        paths, schema = self._written(bucket, offset), arrow_schema(SOURCE_COLUMNS)
        found = [pq.read_table(path, filesystem=self._place()[0], schema=schema) for path in paths]
        if any(_commits(one) != _commits(found[0]) for one in found[1:]):
            raise self.unusable(
                f"two tasks saw the groups of {paths[0]} differently at the same time, and it is not known whose rows "
                "were returned: restart the query with an empty checkpoint and folder"
            )
        return found[0] if found else None

    def save(self, bucket: int, offset: Offset, seen: Any) -> Any:
        """Store a batch's observations, and return those that are stored.

        Of two tasks with the same bucket, such as a speculative one, the first one's stay: Spark may have its rows. A
        task that finds only its own may return them. One that finds another's gives way.
        """
        system, folder = self._place(_name(offset))
        if not self._written(bucket, offset):
            system.create_dir(folder, recursive=True)
            name = uuid.uuid4().hex
            aside, own = f"{folder}/{name}.tmp", f"{folder}/bucket-{bucket}.{name}.parquet"
            pq.write_table(seen, aside, filesystem=system)
            system.move(aside, own)
            if len(self._written(bucket, offset)) > 1:
                system.delete_file(own)
        found = self.load(bucket, offset)
        if found is None:
            raise self.unusable("two tasks read the same groups at once, and both gave way: restart the query")
        return found

    def _written(self, bucket: int, offset: Offset) -> list[str]:
        system, folder = self._place(_name(offset))
        listed = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        named = [info.path for info in listed if info.base_name.startswith(f"bucket-{bucket}.")]
        return sorted(path for path in named if path.endswith(".parquet"))

    def drop(self, offset: Offset) -> None:
        """Remove the observations of a batch."""
        system, folder = self._place(_name(offset))
        system.delete_dir_contents(folder, missing_dir_ok=True)

    def forget(self, offset: Offset) -> None:
        """Remove what the stream observed before the batch that this one follows, whichever driver planned it."""
        system, root = self._place()
        own = re.compile(rf"batch-(\d+)-{offset.get(STREAM)}-.*")
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            if (named := own.fullmatch(info.base_name)) and int(named[1]) < offset["batch"] - 1:
                system.delete_dir(info.path)

    def _place(self, *below: str) -> tuple[Any, str]:
        system, root = _file_system(self._folder)
        return system, "/".join((root, *below))


def _commits(seen: Any) -> Any:
    return seen.select([*KEYS, *VALUES]).sort_by([(key, "ascending") for key in KEYS])


def _name(offset: Offset) -> str:
    return "-".join(["batch", *(str(offset[name]) for name in ("batch", STREAM, DRIVER) if name in offset)])


@dataclass(frozen=True)
class Bucket(InputPartition):
    """The groups of one bucket in the batch between two offsets."""

    number: int
    start: Offset
    end: Offset
    chunk: Chunk


class ChangesReader(DataSourceStreamReader):
    """The reader of a stream of changes."""

    def __init__(self, options: SourceOptions) -> None:
        if not options.state_path:
            raise ConfigurationError(
                "state.path",
                None,
                "a stream needs a folder that the driver and all executors reach, its own for each query",
            )
        self.options = options
        self.state = ChangeState(options.state_path)
        self._read_at = -float("inf")
        self._own = secrets.randbelow(2**53)  # JSON has no larger number in every language
        self._listed: tuple[int, str | None, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, *position: Any) -> dict[str, Any]:
        """List the groups for a further batch; return the offset itself if there is none.

        That is so if the last reading is too recent. Groups that fit into one task are read here: if nothing changed,
        Spark is spared the batch, and otherwise its task finds what was observed.
        """
        if not position:  # an older Spark says not where the stream is: each batch would be the first one
            raise ConfigurationError("readStream", "kafka_groups", "needs Spark 4.2 or later")
        start = position[0] or self.initialOffset()
        wait = self._read_at + self.options.min_interval_seconds - time.monotonic()
        if wait > 0:
            # Spark asks again at once, and stops the query between two calls only. With a trigger, it asks again when
            # that is due next.
            time.sleep(min(wait, _WAIT_SECONDS))
            if wait > _WAIT_SECONDS:
                return dict(start)
        self._read_at = time.monotonic()
        batch = int(start["batch"]) + 1
        # Its own number, so that another query in the folder is never what this one saw. And the driver's, as one that
        # was replaced may be about to plan the same batch.
        own = {STREAM: start.get(STREAM, self._own), DRIVER: self._own}
        self._listed = None
        self.state.drop({"batch": batch, **own})  # it was never begun
        cluster_id, groups = self._list(batch, start)
        tasks = -(-len(groups) // self.options.groups_per_partition)
        end = {"batch": batch, "buckets": 1 << max(tasks - 1, 0).bit_length(), **own, CLUSTER: cluster_id}
        if end["buckets"] == 1:
            only = Bucket(0, start, end, Chunk(cluster_id, groups))
            before = self._before(only)
            now = self._look(only, before, "driver")
            if not changes(before, now):
                return dict(start)
            self.state.save(0, end, now)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Bucket]:
        """Assign the groups to buckets, on the driver."""
        if start["batch"] == end["batch"]:  # Spark's first batch is one also if there was nothing
            return []
        cluster_id, groups = self._list(end["batch"], end)
        count = end["buckets"]
        buckets = [array("q") for _ in range(count)]
        for number, bucket in enumerate(offsets_partitions(groups["group_id"].to_pylist(), count)):
            buckets[bucket].append(number)
        return [
            Bucket(number, start, end, Chunk(cluster_id, groups.take(as_column(pa.int64(), members))))
            for number, members in enumerate(buckets)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the groups of a bucket and compare them, on an executor."""
        if not isinstance(partition, Bucket):
            raise TypeError(f"{partition!r} is no bucket")
        before = self._before(partition)
        now = self.state.load(partition.number, partition.end)
        if now is None:
            now = self.state.save(partition.number, partition.end, self._look(partition, before, "executor"))
        return iter(changes(before, self._in_scope(now)))

    def commit(self, end: dict[str, Any]) -> None:
        """Remove the observations of earlier batches, which are no longer needed."""
        self.state.forget(end)

    def _list(self, batch: int, offset: Offset) -> tuple[str | None, Any]:
        if self._listed is None or self._listed[0] != batch:
            self._listed = (batch, *run(list_in_scope(self.options, PushedFilters()), "driver"))
        cluster_id, groups = self._listed[1:]
        if (known := offset.get(CLUSTER)) and cluster_id and cluster_id != known:
            raise ConfigurationError(
                "kafka.bootstrap.servers",
                None,
                f"lead to the cluster {cluster_id!r}, and the stream has observed {known!r}, whose commits would "
                "all count as removed: correct them, or begin with an empty checkpoint and folder",
            )
        return cluster_id, groups

    def _before(self, partition: Bucket) -> Any:
        """Return the previous observations of a bucket's groups, which may be in other buckets."""
        if not (batch := partition.start["batch"]):
            return _nothing()
        had, has = partition.start["buckets"], partition.end["buckets"]
        tables = []
        for number in range(partition.number % min(had, has), had, has):
            found = self.state.load(number, partition.start)
            if found is None:
                raise self.state.unusable(
                    f"what batch {batch} saw is not there for {socket.gethostname()}: give a storage that the driver "
                    "and all executors reach, and restart the query with an empty checkpoint and folder"
                )
            if had < has:
                group_ids = found["group_id"].to_pylist()
                found = found.filter(pa.array([at == partition.number for at in offsets_partitions(group_ids, has)]))
            tables.append(found)
        return self._in_scope(pa.concat_tables(tables))

    def _in_scope(self, seen: Any) -> Any:
        """Return what was observed of the groups in scope: before a restart, there may have been others."""
        wanted = GroupFilter(include=self.options.include, exclude=self.options.exclude)
        if wanted == GroupFilter():
            return seen
        chosen = [group_id for group_id in pc.unique(seen["group_id"]).to_pylist() if wanted.selects(group_id)]
        return seen.filter(pc.is_in(seen["group_id"], pa.array(chosen, pa.string())))

    def _look(self, partition: Bucket, before: Any, where: str) -> Any:
        if not partition.chunk.groups:
            return _nothing()
        batches = run(fetch(self.options, PushedFilters(), partition.chunk), where)
        seen = pa.Table.from_batches(batches, schema=arrow_schema(SOURCE_COLUMNS))
        unread = pc.unique(seen.filter(pc.is_valid(seen["error"]))["group_id"])
        read = seen.filter(pc.and_(pc.is_valid(seen["topic"]), pc.invert(pc.is_in(seen["group_id"], unread))))
        return pa.concat_tables([read, before.filter(pc.is_in(before["group_id"], unread))])


def changes(before: Any, now: Any) -> list[Any]:
    """Compare two tables of the source's rows; return batches of ``CHANGE_COLUMNS``."""
    numbered = [
        table.select(KEYS).append_column(name, as_column(pa.int64(), array("q", range(table.num_rows))))
        for table, name in ((now, "now"), (before, "before"))
    ]
    both = numbered[0].join(numbered[1], KEYS, join_type="full outer")
    new = both.filter(pc.is_null(both["before"]))["now"]
    removed = both.filter(pc.is_null(both["now"]))["before"]
    kept = both.drop_null()
    differs = []
    for name, none in VALUES.items():
        left, right = now[name].take(kept["now"]).fill_null(none), before[name].take(kept["before"]).fill_null(none)
        differs.append(pc.not_equal(left, right))
    moved = kept.filter(reduce(pc.or_, differs))
    found = [
        ("new", now.take(new), pa.nulls(len(new), pa.int64())),
        ("moved", now.take(moved["now"]), before["committed_offset"].take(moved["before"])),
        ("removed", before.take(removed), before["committed_offset"].take(removed)),
    ]
    schema = arrow_schema(CHANGE_COLUMNS)
    tables = [
        pa.table([pa.repeat(kind, len(rows)), previous, *rows.columns], schema=schema)
        for kind, rows, previous in found
        if len(rows)
    ]
    return [batch for table in tables for batch in table.combine_chunks().to_batches()]


def _nothing() -> Any:
    return arrow_schema(SOURCE_COLUMNS).empty_table()
