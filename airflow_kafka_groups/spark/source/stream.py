"""The stream of changes: commits that are new, moved or removed since the last micro-batch.

Kafka has no history of commits, so each micro-batch reads all groups and compares them with the previous one. The
observations of a batch are stored below ``state.path``, one file per bucket and batch:

- A batch that is repeated after a failure finds its observations and returns the same rows, without requests.
- A row is the *net* change between two observations. A change that was reverted in between is not visible.
- The first batch of a query returns every existing commit as ``new``.
- A group that cannot be read fails the batch; with ``failures`` = ``report`` its last observation is kept.

The stream's own offset is the number of the batch, so it stays small for any number of groups.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from airflow_kafka_groups.cluster.routing import offsets_partitions
from airflow_kafka_groups.contracts.columns import columns
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.maintenance import arrow_schema as arrow
from airflow_kafka_groups.spark.schemas import schema_of
from airflow_kafka_groups.spark.source.filters import PushedFilters
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import Chunk, fetch, list_in_scope, run
from airflow_kafka_groups.spark.source.rows import SOURCE_COLUMNS, arrow_schema

CHANGE_COLUMNS = (*columns({"change": "string", "previous_offset": "int64, null"}), *SOURCE_COLUMNS)
"""``change`` is ``new``, ``moved`` or ``removed``; a removed commit has its last observed columns."""

CHANGE_SCHEMA = schema_of(CHANGE_COLUMNS)
BUCKETS = 16
_KEYS = ["group_id", "topic", "partition"]
_VALUES = {"committed_offset": -1, "leader_epoch": -1, "metadata": ""}


@dataclass(frozen=True)
class Bucket(InputPartition):
    """The groups of one bucket in one batch."""

    number: int
    before: int
    batch: int
    chunk: Chunk


class ChangesReader(DataSourceStreamReader):
    """The reader of a stream of changes.

    :param options: the options of the read; ``state_path`` is required.
    """

    def __init__(self, options: SourceOptions) -> None:
        if not options.state_path:
            raise ConfigurationError(
                "state.path",
                None,
                "a stream needs a folder that the driver and all executors reach, its own for each query",
            )
        self.options = options
        self.state = ChangeState(options.state_path)

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, *position: Any) -> dict[str, int]:
        """Return the next batch: a further observation is always possible."""
        start = position[0] if position and position[0] else self.initialOffset()
        return {"batch": int(start["batch"]) + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Bucket]:
        """List the groups and assign them to buckets, on the driver."""
        cluster_id, groups = run(list_in_scope(self.options, PushedFilters()), "driver")
        buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
        for number, bucket in enumerate(offsets_partitions(groups.ids, BUCKETS)):
            buckets[bucket].append(number)
        return [
            Bucket(number, start["batch"], end["batch"], Chunk(cluster_id, groups.pick(members)))
            for number, members in enumerate(buckets)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the groups of a bucket and compare them, on an executor."""
        if not isinstance(partition, Bucket):
            raise TypeError(f"{partition!r} is no bucket")
        before = self.state.load(partition.number, partition.before) if partition.before else _nothing()
        if before is None:
            raise ConfigurationError(
                "state.path",
                self.options.state_path,
                f"what batch {partition.before} saw is gone: restart the query with an empty checkpoint and folder",
            )
        now = self.state.load(partition.number, partition.batch)
        if now is None:
            now = self._look(partition, before)
            self.state.save(partition.number, partition.batch, now)
        return iter(changes(before, now))

    def commit(self, end: dict[str, int]) -> None:
        """Remove the observations of earlier batches, which are no longer needed."""
        self.state.forget(end["batch"] - 1)

    def _look(self, partition: Bucket, before: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not partition.chunk.groups:
            return _nothing()
        batches = run(fetch(self.options, PushedFilters(), partition.chunk), "executor")
        seen = pa.Table.from_batches(batches, schema=arrow_schema())
        unread = pc.unique(seen.filter(pc.is_valid(seen["error"]))["group_id"])
        read = seen.filter(pc.and_(pc.is_valid(seen["topic"]), pc.invert(pc.is_in(seen["group_id"], unread))))
        return pa.concat_tables([read, before.filter(pc.is_in(before["group_id"], unread))])


class ChangeState:
    """The observations of batches: ``<folder>/batch-<number>/bucket-<number>.parquet``.

    :param folder: path or URI, as supported by pyarrow's file systems.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def load(self, bucket: int, batch: int) -> Any:
        """Return a batch's observations of a bucket; ``None`` if there are none."""
        import pyarrow.parquet as pq

        system, root = self._place()
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        if not system.get_file_info(path).is_file:
            return None
        return pq.read_table(path, filesystem=system, schema=arrow_schema())

    def save(self, bucket: int, batch: int, seen: Any) -> None:
        """Store a batch's observations by a temporary file and a rename, so that they are complete or absent."""
        import pyarrow.parquet as pq

        system, root = self._place()
        system.create_dir(f"{root}/batch-{batch}", recursive=True)
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        aside = f"{path}.{uuid.uuid4().hex}"
        pq.write_table(seen, aside, filesystem=system)
        system.move(aside, path)

    def forget(self, below: int) -> None:
        """Remove the observations of batches with a lower number."""
        from pyarrow import fs

        system, root = self._place()
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            number = info.base_name.removeprefix("batch-")
            if number != info.base_name and number.isdigit() and int(number) < below:
                system.delete_dir(info.path)

    def _place(self) -> tuple[Any, str]:
        from pyarrow import fs

        if "://" in self._folder:
            system, root = fs.FileSystem.from_uri(self._folder)
            return system, str(root)
        return fs.LocalFileSystem(), self._folder


def changes(before: Any, now: Any) -> list[Any]:
    """Compare two observations; return batches of ``CHANGE_SCHEMA``.

    :param before: ``pyarrow.Table`` of commits, as the source's rows.
    :param now: the same, later.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    numbered = [
        table.select(_KEYS).append_column(name, pa.array(np.arange(table.num_rows)))
        for table, name in ((now, "now"), (before, "before"))
    ]
    both = numbered[0].join(numbered[1], _KEYS, join_type="full outer")
    new = both.filter(pc.is_null(both["before"]))["now"]
    removed = both.filter(pc.is_null(both["now"]))["before"]
    kept = both.filter(pc.and_(pc.is_valid(both["now"]), pc.is_valid(both["before"])))
    differs = pa.array(np.zeros(kept.num_rows, np.bool_))
    for name, none in _VALUES.items():
        left, right = now[name].take(kept["now"]).fill_null(none), before[name].take(kept["before"]).fill_null(none)
        differs = pc.or_(differs, pc.not_equal(left, right))
    moved = kept.filter(differs)
    rows = [
        ("new", now.take(new), None),
        ("moved", now.take(moved["now"]), before["committed_offset"].take(moved["before"])),
        ("removed", before.take(removed), before["committed_offset"].take(removed)),
    ]
    return [batch for kind, table, previous in rows for batch in _named(kind, table, previous)]


def _named(kind: str, table: Any, previous: Any) -> list[Any]:
    import pyarrow as pa

    offsets = pa.nulls(table.num_rows, pa.int64()) if previous is None else previous
    named = {"change": pa.repeat(pa.scalar(kind), table.num_rows), "previous_offset": offsets}
    named |= {name: table[name] for name in table.column_names}
    changed = pa.table(named, schema=arrow.arrow_schema(CHANGE_COLUMNS))
    batches_of: list[Any] = changed.combine_chunks().to_batches() if table.num_rows else []
    return batches_of


def _nothing() -> Any:
    return arrow_schema().empty_table()
