"""A report on a snapshot, in two readings of its rows: what is to be looked up, and then the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.judge.partitions import SCHEMA, TIMESTAMPS, largest, partition_lag, with_seconds
from airflow_kafka_groups.judge.sums import Sums
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.storage.paths import TableName
from airflow_kafka_groups.storage.replaced_folder import ReplacedFolder
from airflow_kafka_groups.storage.storage import Storage

SUMMED_BY = {
    TableName.LAG_GROUPS: ("group_id", "owner", "state"),
    TableName.LAG_TOPICS: ("topic",),
    TableName.LAG_OWNERS: ("owner",),
}


class Seen(NamedTuple):
    """What the first reading finds.

    :param groups: the ids of all groups.
    :param unreadable: the ids of those that could not be read in full.
    :param behind: the first unread offsets of the largest lags.
    """

    groups: set[str]
    unreadable: set[str]
    behind: list[tuple[Partition, int]]


def look_through(rows: Iterable[pa.Table], count: int) -> Seen:
    """Read a snapshot for the first time, so that nothing is written of one that cannot be used.

    :param rows: its parts, as ``SnapshotRows`` has them.
    :param count: the number of first unread offsets to return.
    """
    groups, unreadable = set[str](), set[str]()
    behind: list[pa.Table] = []
    for part in rows:
        groups.update(pc.unique(part["group_id"]).to_pylist())
        unreadable.update(pc.unique(part["group_id"].filter(part["error"].is_valid())).to_pylist())
        if count:
            behind = [largest(pa.concat_tables([*behind, largest(partition_lag(part), count)]), count)]
    places = (row for table in behind for row in table.to_pylist())
    offsets = [(Partition(row["topic"], row["partition"]), row["first_offset"]) for row in places]
    return Seen(groups, unreadable, offsets)


def write_tables(
    storage: Storage,
    places: Mapping[TableName, str],
    rows: Iterable[pa.Table],
    owners: Mapping[str, str],
    found: Sequence[Timestamp],
) -> tuple[Sums, dict[TableName, pa.Table]]:
    """Write the lag of each partition and the tables of ``SUMMED_BY``; return all sums, and these tables.

    :param places: their folders, which are replaced.
    :param rows: the snapshot's, as ``SnapshotRows`` has them.

    Raises ``JobError`` if a folder has other files afterwards than were written.
    """
    sums = Sums()
    timestamps = pa.Table.from_pylist([dict(zip(TIMESTAMPS.names, each, strict=True)) for each in found], TIMESTAMPS)

    def lags() -> Iterator[pa.Table]:
        for part in rows:
            table = with_seconds(partition_lag(part, owners), timestamps)
            sums.add(table)
            yield table

    folders = {name: ReplacedFolder(storage, place) for name, place in places.items()}
    folders[TableName.LAG_PARTITIONS].write(SCHEMA, lags())
    tables = {name: sums.by(*names) for name, names in SUMMED_BY.items()}
    for name, table in tables.items():
        folders[name].write(table.schema, [table])
    for folder in folders.values():
        folder.verify("rows", "reported")
    return sums, tables
