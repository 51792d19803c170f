"""The rows of a snapshot or a backup, gathered as answers come, and the Parquet file that they become.

A million committed offsets kept as Python objects take a gigabyte. Here they stay the bytes that a broker sent until
all are there (see ``kafka.admin.arrow``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from airflow_kafka_groups.exceptions import PartitionOffsetsError, StorageError
from airflow_kafka_groups.kafka.admin.arrow import OffsetRows, null_if_negative
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, is_not_found
from airflow_kafka_groups.kafka.models import (
    EPOCH_TYPES,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    TopicOffsets,
    TopicPartition,
)
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.arrow_values import as_column, column, literal, release_unused
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, Progress
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.paths import SNAPSHOT_FILE
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, Columns, arrow_schema

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient

LogEnds = tuple["array[int]", "array[int]"]
"""Where the log of each partition starts, and where it ends; -1 for one that is not known."""

_PARTITION_BITS = 32


_ROWS_AT_ONCE = 131_072
ROWS_OF_A_FILE = 1_000_000
"""The most rows in a file of a snapshot: what reads one holds its bytes, and one of its row groups."""


class GroupFacts(NamedTuple):
    """What is known of a group besides its offsets. Default: not known."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str = GroupState.UNKNOWN.value
    members: int | None = None
    coordinator: int | None = None
    group_epoch: int | None = None


class GroupRows:
    """A row for each committed offset and each partition that cannot be read, and at least one for each group.

    Once rows or ``partitions`` were asked for, no group may be added. ``observed`` has when the answer of each group
    came, in microseconds since 1970, and ``log_ends`` those of ``partitions``; ``None``: nobody asked.
    """

    def __init__(self) -> None:
        self.observed = array("q")
        self.log_ends: LogEnds | None = None
        self._facts: list[GroupFacts] = []
        self._rows = OffsetRows()
        self._errors: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        observed_at: datetime,
        offsets: GroupOffsets | None,
        *,
        facts: GroupFacts | None = None,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add the next group.

        :param observed_at: when its answer came.
        :param offsets: its committed offsets; ``None`` where there are none to ask for.
        :param facts: what else is known of it. Default: whoever reads the rows has columns of the groups.
        :param error: why it could not be read. Default: it could.
        :param partition_errors: why some of its partitions could not be read. Default: all could.
        """
        rows, group, before = self._rows, len(self.observed), len(self._rows)
        self.observed.append(round(observed_at.timestamp() * 1_000_000))
        if facts is not None:
            self._facts.append(facts)
        for topic in offsets.topics if offsets is not None else ():
            rows.add(group, _committed(topic))
        for key, text in (partition_errors or {}).items():
            self._errors.append((len(rows), text))
            rows.add(group, TopicOffsets.of_rows(key.topic, [(key.partition, -1, -1, "")]))
        if len(rows) == before:
            if error is not None:
                self._errors.append((len(rows), error))
            rows.add_group(group)

    def times(self) -> list[datetime]:
        """Return the earliest and the latest time at which a group was read; empty without groups."""
        micros = self.observed
        return [datetime.fromtimestamp(at / 1_000_000, UTC) for at in (min(micros), max(micros))] if micros else []

    @cached_property
    def partitions(self) -> list[TopicPartition]:
        """Every partition that rows name, each once."""
        low, topics = (1 << _PARTITION_BITS) - 1, self._rows.topics
        keys = self._partition.dictionary.to_pylist()
        return [TopicPartition(topics[key >> _PARTITION_BITS], key & low) for key in keys]

    def files(self, rows: int) -> Iterator[Iterator[dict[str, Any]]]:
        """Return all rows as ``sorted_chunks`` does, in parts for a file each: at least one. No group is in two.

        :param rows: the most rows in a file, unless a single group has more.
        """
        import pyarrow.compute as pc

        groups, rank = self._groups()
        order = pc.sort_indices(rank)
        ends = pc.run_end_encode(rank.take(order)).run_ends.to_pylist()
        begin = place = 0
        while begin == 0 or place < len(ends):
            place = max(bisect_right(ends, begin + rows), place + 1)
            end = ends[place - 1] if ends else 0
            yield self.chunks(groups, _ROWS_AT_ONCE, order.slice(begin, end - begin))
            if not ends:
                return
            begin = end

    def sorted_chunks(self, rows: int, **more: Any) -> Iterator[dict[str, Any]]:
        """Return all rows as named Arrow arrays, each group's rows together, groups sorted by id.

        :param rows: the most rows in a chunk.
        :param more: further columns, with an entry for each group in the order in which they were added.
        """
        import pyarrow.compute as pc

        groups, rank = self._groups()
        return self.chunks(groups | more, rows, pc.sort_indices(rank))

    def chunks(self, groups: Mapping[str, Any], rows: int, order: Any = None) -> Iterator[dict[str, Any]]:
        """Return the rows as named Arrow arrays of equal length.

        :param groups: columns with an entry for each group in the order in which they were added.
        :param rows: the most rows in a chunk.
        :param order: indices of the rows. Default: the order in which they were added.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        columns, (texts, numbers) = self._columns, self._row_errors()
        unknown = array("q", [-1]) * len(self.partitions)
        start, end = (null_if_negative(as_column(pa.int64(), each)) for each in self.log_ends or (unknown, unknown))
        topics = column(self._rows.topics, pa.string())
        for first in range(0, len(columns if order is None else order), rows):
            chosen = _chooser(order, first, rows)
            group, partition = chosen(columns["group"]), chosen(self._partition.indices)
            offset, metadata = null_if_negative(chosen(columns["committed_offset"])), chosen(columns["metadata"])
            yield {name: values.take(group) for name, values in groups.items()} | {
                "topic": topics.take(null_if_negative(chosen(columns["topic"]))),
                "partition": null_if_negative(chosen(columns["partition"])),
                "committed_offset": offset,
                "leader_epoch": null_if_negative(chosen(columns["leader_epoch"])),
                "metadata": pc.if_else(pc.is_valid(offset), metadata, literal(None, metadata.type)),
                "log_start": start.take(partition),
                "log_end": end.take(partition),
                "error": texts.take(chosen(numbers)),
            }

    @cached_property
    def _columns(self) -> Any:
        return self._rows.columns()  # the bytes that they came as are let go

    @cached_property
    def _partition(self) -> Any:
        """The partition of each row, numbered once: topic and partition are one number in the dictionary."""
        import pyarrow as pa
        import pyarrow.compute as pc

        topic = pc.shift_left(self._columns["topic"].cast(pa.int64()), literal(_PARTITION_BITS))
        return null_if_negative(pc.add(topic, self._columns["partition"].cast(pa.int64()))).dictionary_encode()

    def _row_errors(self) -> tuple[Any, Any]:
        """Return why rows could not be read, and the number of each row's reason."""
        import pyarrow as pa

        codes = array("i", [-1]) * len(self)
        for number, (row, _) in enumerate(self._errors):
            codes[row] = number
        return column([text for _, text in self._errors], pa.string()), null_if_negative(as_column(pa.int32(), codes))

    def _groups(self) -> tuple[dict[str, Any], Any]:
        """Return columns with an entry for each group, and of each row the place of its group, sorted by id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        facts = self._facts
        kinds = dict.fromkeys(GroupFacts._fields[:4], pa.string()) | dict.fromkeys(GroupFacts._fields[4:], pa.int32())
        groups = {name: column([getattr(fact, name) for fact in facts], kind) for name, kind in kinds.items()}
        groups["observed_at"] = as_column(pa.timestamp("us", tz="UTC"), self.observed)
        by_id = column(sorted(range(len(facts)), key=lambda number: facts[number].group_id), pa.int32())
        rank = pc.sort_indices(by_id)  # the inverse of a permutation sorts it
        return groups, rank.take(self._columns["group"])


def readable_part(result: GroupResult[GroupOffsets]) -> tuple[GroupOffsets | None, dict[str, Any]]:
    """Return what a group has committed, and what could not be read of it, as ``GroupRows.add`` takes it."""
    error = result.error
    if isinstance(error, PartitionOffsetsError):
        return error.partial, {"partition_errors": {key: str(why) for key, why in error.partition_errors.items()}}
    return result.value, {} if error is None else {"error": str(error) or type(error).__name__}


def _chooser(order: Any, first: int, rows: int) -> Callable[[Any], Any]:
    """Return what picks the next rows out of a column."""
    if order is None:
        return lambda column: column.slice(first, rows)
    indices = order.slice(first, rows)
    return lambda column: column.take(indices)


def _committed(topic: TopicOffsets) -> TopicOffsets:
    """Leave out partitions that have no commit, which brokers name only when they are asked for them."""
    if topic.committed == len(topic):
        return topic
    return TopicOffsets.of_rows(topic.topic, [row for row in topic.rows() if row[1] >= 0])


def write_rows(layout: Layout, snapshot_id: str, table: GroupRows) -> tuple[SnapshotFile, ...]:
    """Write the rows of a snapshot and return its files. Raises ``StorageError``."""
    constants = {"cluster": layout.cluster, "run_id": snapshot_id}
    folder, files = layout.snapshot_data(snapshot_id), list[SnapshotFile]()
    try:
        for chunks in table.files(ROWS_OF_A_FILE):
            name, content = SNAPSHOT_FILE.format(len(files)), BytesIO()
            rows = write_parquet(content, SNAPSHOT_COLUMNS, chunks, constants)
            FILES.create(folder / name, data := content.getvalue())
            files.append(SnapshotFile(name, rows, sha256(data).hexdigest()))
    except BaseException:  # what does not fit would fill the disk for good
        with suppress(StorageError):
            FILES.remove_folder(folder, everything=True)
        raise
    return tuple(files)


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


_DESCRIBE_AT_ONCE = 2_000


async def gather_facts(
    admin: AdminClient,
    listings: GroupListings,
    wanted: list[str] | None,
    groups: GroupFilter,
    described: Callable[[GroupDescription], None],
    progress: Progress,
) -> tuple[dict[str, GroupFacts], list[str]]:
    """Return the facts about every group in scope, and the requested ids that do not exist.

    :param wanted: only these groups. Default: those that ``groups`` selects.
    :param described: takes each group that is described.
    """
    ids = list(listings) if wanted is None else wanted
    selected = [group_id for group_id in ids if wanted is not None or groups.selects(group_id)]
    facts = {group_id: _from_listing(group_id, listings.get(group_id)) for group_id in selected}
    unclear = [group_id for group_id, fact in facts.items() if _needs_describing(fact)]
    not_found = []
    done = 0
    for start in range(0, len(unclear), _DESCRIBE_AT_ONCE):
        chunk = unclear[start : start + _DESCRIBE_AT_ONCE]
        for group_id, result in (await admin.describe_consumer_groups(chunk)).items():
            if group_id not in facts:
                continue
            if group_id not in listings and _is_absent(result):
                not_found.append(group_id)
                del facts[group_id]
            elif result.value is not None:
                facts[group_id] = _from_description(facts[group_id], result.value)
                described(result.value)
        done += len(chunk)
        progress("describe", done, len(unclear))
    return facts, not_found


def _from_listing(group_id: str, listing: GroupListing | None) -> GroupFacts:
    if listing is None:
        return GroupFacts(group_id=group_id, group_type=GroupType.UNKNOWN.value, protocol_type="")
    return GroupFacts(
        group_id=group_id,
        group_type=listing.type.value,
        protocol_type=listing.protocol_type,
        state=listing.state.value,
        members=0 if listing.state is GroupState.EMPTY else None,
        coordinator=listing.coordinator,
    )


def _from_description(facts: GroupFacts, described: GroupDescription) -> GroupFacts:
    """Add what the listing lacks: the members, and the state if it has none.

    A type that the listing lacks remains unknown: only some groups are described, and a type that appeared and
    disappeared with the state would look like another group when snapshots are compared.
    """
    if facts.coordinator is None:  # not in the listing
        facts = facts._replace(
            group_type=described.type.value, protocol_type=described.protocol_type, coordinator=described.coordinator
        )
    state = described.state.value if facts.state == GroupState.UNKNOWN.value else facts.state
    return facts._replace(state=state, members=len(described.members), group_epoch=described.group_epoch)


def _needs_describing(facts: GroupFacts) -> bool:
    return facts.state != GroupState.EMPTY.value or facts.group_type in EPOCH_TYPES


def _is_absent(result: GroupResult[GroupDescription]) -> bool:
    if result.error is not None:
        return is_not_found(result.error)
    return result.value is not None and result.value.state is GroupState.DEAD
