"""The rows of a snapshot or a backup, with what is known of each group, and the Parquet file they become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, Any, NamedTuple

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupState, TopicPartition
from airflow_kafka_groups.observe.snapshot.group_rows import GatheredRows, GroupRows, LogEnds
from airflow_kafka_groups.storage.arrow_schema import arrow_schema
from airflow_kafka_groups.storage.arrow_values import as_column, column, literal, release_unused
from airflow_kafka_groups.storage.columns import SNAPSHOT_COLUMNS, Columns
from airflow_kafka_groups.storage.durable_files import local_path, remove_file, remove_folder, sync_file
from airflow_kafka_groups.storage.layout import Layout, storage_errors
from airflow_kafka_groups.storage.local_files import make_folder
from airflow_kafka_groups.storage.paths import SNAPSHOT_FILE

_ROWS_AT_ONCE = 131_072


class GroupFacts(NamedTuple):
    """What is known of a group besides its offsets. Default: not known."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str = GroupState.UNKNOWN.value
    members: int | None = None
    coordinator: int | None = None


class GroupTable:
    """Groups in the order in which they were read, and their rows sorted by group id."""

    def __init__(self) -> None:
        self._facts: list[GroupFacts] = []
        self._rows = GroupRows()
        self._log_ends: LogEnds | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        facts: GroupFacts,
        observed_at: datetime,
        offsets: GroupOffsets | None,
        *,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add a group; see ``GroupRows.add``."""
        self._facts.append(facts)
        micros = round(observed_at.timestamp() * 1_000_000)
        self._rows.add(micros, offsets, error=error, partition_errors=partition_errors)

    def times(self) -> list[datetime]:
        """Return the earliest and the latest time at which a group was read; empty without groups."""
        micros = self._rows.observed
        return [datetime.fromtimestamp(at / 1_000_000, UTC) for at in (min(micros), max(micros))] if micros else []

    def partitions(self) -> list[TopicPartition]:
        """Return every partition seen, each once. No group may be added afterwards."""
        return self._gathered.partitions

    def set_log_ends(self, log_ends: LogEnds) -> None:
        """Set where the logs of ``partitions()`` start and end."""
        self._log_ends = log_ends

    def chunks(self, rows: int = _ROWS_AT_ONCE, **more: Any) -> Iterator[dict[str, Any]]:
        """Return all rows as named Arrow arrays, each group's rows together, groups sorted by id.

        :param more: further columns, with an entry for each group in the order in which they were added.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        gathered, facts = self._gathered, self._facts
        groups = {
            name: column([getattr(fact, name) for fact in facts], pa.string())
            for name in ("group_id", "group_type", "protocol_type", "state")
        }
        groups |= {
            name: column([getattr(fact, name) for fact in facts], pa.int32()) for name in ("members", "coordinator")
        }
        groups |= more
        groups["observed_at"] = as_column(pa.timestamp("us", tz="UTC"), self._rows.observed)
        by_id = column(sorted(range(len(facts)), key=lambda number: facts[number].group_id), pa.int32())
        rank = pc.sort_indices(by_id)  # the inverse of a permutation sorts it
        order = pc.sort_indices(rank.take(gathered.group))
        return gathered.chunks(groups, self._log_ends, rows, order)

    @cached_property
    def _gathered(self) -> GatheredRows:
        return self._rows.end()


def write_rows(layout: Layout, snapshot_id: str, table: GroupTable) -> int:
    """Write the rows of a snapshot and return their number. Raises ``StorageError``."""
    constants = {"cluster": layout.cluster, "run_id": snapshot_id}
    folder = layout.snapshot_data(snapshot_id)
    with storage_errors("written", folder):
        if (local := local_path(folder)) is not None:
            make_folder(local)
        try:
            with (folder / SNAPSHOT_FILE).open("wb") as file:
                rows = write_parquet(file, SNAPSHOT_COLUMNS, table.chunks(), constants)
            sync_file(folder / SNAPSHOT_FILE)  # before there is a manifest that vouches for it
            return rows
        except BaseException:  # what does not fit would fill the disk for good
            with suppress(StorageError):
                remove_file(folder / SNAPSHOT_FILE)
                remove_folder(folder)
            raise


def write_parquet(
    file: IO[bytes], columns: Columns, chunks: Iterable[Mapping[str, Any]], constants: Mapping[str, str]
) -> int:
    """Write a stored table a chunk at a time, and return the number of rows.

    :param chunks: Arrow arrays by name.
    :param constants: columns that have one value in all rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(columns)
    rows = 0
    # Without checksums, most flipped bits are decompressed to other rows without an error.
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=True, write_page_checksum=True) as writer:
        for chunk in chunks:
            size = len(chunk["group_id"])
            named = {**chunk, **{name: pa.repeat(literal(value), size) for name, value in constants.items()}}
            writer.write_table(pa.table([named[name] for name in schema.names], schema=schema))
            rows += size
            release_unused()
    return rows
