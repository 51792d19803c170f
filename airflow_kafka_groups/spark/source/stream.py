"""Stream what changed: commits that are new, moved or removed since the last micro-batch.

Kafka keeps no history of commits that could be asked for, so each micro-batch looks at all groups and compares with
what the one before saw. What a batch saw is kept below ``state.path``, one file for each bucket and each batch:

- A batch that is repeated after a failure finds what it saw and gives the same rows again, and asks nobody.
- A row is the *net* change between two looks. What moved and moved back in between, or came and went, is not seen.
- The first batch of a query gives every commit there is, as ``new``.
- A group that cannot be read fails the batch; with ``failures`` = ``report`` it is left as it was seen last.

The stream's own offset is the number of the batch, so it stays small however many groups there are.
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
"""``change`` is ``new``, ``moved`` or ``removed``; a removed commit has the columns it was last seen with."""

CHANGE_SCHEMA = schema_of(CHANGE_COLUMNS)
BUCKETS = 16
_KEYS = ["group_id", "topic", "partition"]
_VALUES = {"committed_offset": -1, "leader_epoch": -1, "metadata": ""}


@dataclass(frozen=True)
class Bucket(InputPartition):
    """Be the groups of one bucket in one batch."""

    number: int
    before: int
    batch: int
    chunk: Chunk


class ChangesReader(DataSourceStreamReader):
    """Read a stream of changes.

    :param options: what the user asked for; ``state_path`` is needed.
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
        """Give the offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, *position: Any) -> dict[str, int]:
        """Give the next batch: there is always one more look to take."""
        start = position[0] if position and position[0] else self.initialOffset()
        return {"batch": int(start["batch"]) + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Bucket]:
        """List the groups and put them into buckets, on the driver."""
        cluster_id, groups = run(list_in_scope(self.options, PushedFilters()), "driver")
        buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
        for number, bucket in enumerate(offsets_partitions(groups.ids, BUCKETS)):
            buckets[bucket].append(number)
        return [
            Bucket(number, start["batch"], end["batch"], Chunk(cluster_id, groups.pick(members)))
            for number, members in enumerate(buckets)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Look at the groups of a bucket and compare, on an executor."""
        if not isinstance(partition, Bucket):
            raise TypeError(f"{partition!r} is no bucket")
        before = self.state.load(partition.number, partition.before) if partition.before else _nothing()
        if before is None:
            raise ConfigurationError(
                "state.path",
                self.options.state_path,
                f"what batch {partition.before} saw is gone: start the query anew, with an empty checkpoint and folder",
            )
        now = self.state.load(partition.number, partition.batch)
        if now is None:
            now = self._look(partition, before)
            self.state.save(partition.number, partition.batch, now)
        return iter(changes(before, now))

    def commit(self, end: dict[str, int]) -> None:
        """Remove what batches before this one saw; nobody will ask for it again."""
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
    """Keep what batches saw: ``<folder>/batch-<number>/bucket-<number>.parquet``.

    :param folder: path or URI, as pyarrow's file systems take them.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def load(self, bucket: int, batch: int) -> Any:
        """Give what a batch saw of a bucket; ``None`` if it has not looked yet."""
        import pyarrow.parquet as pq

        system, root = self._place()
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        if not system.get_file_info(path).is_file:
            return None
        return pq.read_table(path, filesystem=system, schema=arrow_schema())

    def save(self, bucket: int, batch: int, seen: Any) -> None:
        """Keep what a batch saw; written aside and renamed, so that it is there wholly or not at all."""
        import pyarrow.parquet as pq

        system, root = self._place()
        system.create_dir(f"{root}/batch-{batch}", recursive=True)
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        aside = f"{path}.{uuid.uuid4().hex}"
        pq.write_table(seen, aside, filesystem=system)
        system.move(aside, path)

    def forget(self, below: int) -> None:
        """Remove what batches with a lower number saw."""
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
    """Compare two looks; give batches of ``CHANGE_SCHEMA``.

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
