"""The groups of a snapshot as objects, each with all its offsets; and a table beside a snapshot that nobody reads."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS

NO_TABLE = SnapshotFile("none.parquet", 0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGroup:
    """A group in a snapshot. ``errors`` is empty if it could be read completely."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    coordinator: int | None
    observed_at: datetime
    offsets: GroupOffsets
    errors: tuple[str, ...]
    group_epoch: int | None = None


def groups_in(reader: SnapshotReader, group_ids: Collection[str] | None = None) -> Iterator[SnapshotGroup]:
    """Yield each group of a snapshot, or each of the given ones, sorted by id."""
    wanted = [group.group_id for group in reader.summaries()] if group_ids is None else group_ids
    columns = {column.name for column in SNAPSHOT_COLUMNS} - {"cluster", "run_id", "group_id"}
    rows = [row for block in reader.blocks(wanted, columns) for row in block.rows.to_pylist()]
    for group_id, of_group in groupby(rows, itemgetter("group_id")):
        first, *more = of_group
        committed = {
            TopicPartition(row["topic"], row["partition"]): OffsetAndMetadata(
                row["committed_offset"], row["metadata"] or "", row["leader_epoch"]
            )
            for row in (first, *more)
            if row["committed_offset"] is not None
        }
        yield SnapshotGroup(
            group_id=group_id,
            group_type=first["group_type"],
            protocol_type=first["protocol_type"],
            state=first["state"],
            members=first["members"],
            coordinator=first["coordinator"],
            observed_at=first["observed_at"],
            offsets=GroupOffsets.from_mapping(group_id, committed),
            errors=tuple(row["error"] for row in (first, *more) if row["error"] is not None),
            group_epoch=first["group_epoch"],
        )
