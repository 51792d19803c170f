"""The groups of a plan as columns, and the Parquet file that has them sorted by id.

A plan can have hundreds of thousands of groups. As columns they take a tenth of the memory of objects, are written and
read in a fraction of a second.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, Self, TypeVar, cast, overload

from airflow_kafka_groups.judge.policy.rules import RuleFacts
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.storage.arrow_values import column, literal, release_unused
from airflow_kafka_groups.storage.schemas import PLAN_COLUMNS, arrow_schema, read_known, utc_times

_AT_ONCE = 4_096
_TIMES = {column.name for column in PLAN_COLUMNS if column.kind == "timestamp"}
_Group = TypeVar("_Group")


def name_of(group_id: str, topic: str) -> str:
    """Return how a topic of a group is named in the journal, in approvals and in results.

    Names of topics have no brackets, so the last one of them begins the topic.
    """
    return f"{group_id} [{topic}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """One group to delete, or a topic whose offsets a live group is to lose, as it was when it was judged.

    :param partitions: the number of partitions with a committed offset.
    :param idle_since: since when it is idle: of a topic, the oldest snapshot since which nobody was subscribed to it,
        and its offsets did not change.
    :param fingerprint: of these offsets.
    :param observations: of a topic, the number of snapshots that prove it.
    :param rule: the name of the rule of a policy file that decided; ``owner`` and ``family`` are known where there are
        any.

    What follows is for people, as far as the job foresaw it (see ``FORECAST_COLUMNS``); nothing is decided by it.
    """

    group_id: str
    topic: str | None = None
    group_type: str
    protocol_type: str
    state: str
    partitions: int
    lag: int | None = None
    idle_since: datetime | None
    idle_seconds: float | None
    reason: str
    fingerprint: str
    group_epoch: int | None = None
    observations: int | None = None
    rule: str | None = None
    owner: str | None = None
    family: str | None = None
    lag_unknown: int | None = None
    lost: int | None = None
    lag_trend: float | None = None
    lag_trend_since: datetime | None = None
    offsets_expire_by: datetime | None = None
    data_loss_not_before: datetime | None = None

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return self.target.name

    @property
    def target(self) -> Target:
        """What it has to look like still."""
        return Target(*(getattr(self, name) for name in Target._fields))

    @property
    def decided(self) -> RuleFacts:
        """The facts that rules are matched against."""
        return RuleFacts(self.group_id, self.group_type, self.owner, rule=self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGroup:
    """One group, or topic of a group, that is not in the plan, and why.

    ``verdict`` is the job's, or a ``KeptName`` for a group that the job found stale; of a topic, a ``KeptTopic``.
    ``group_type``, ``idle_since`` and ``fingerprint`` are known of a group that only waits for its notice.
    """

    group_id: str
    topic: str | None = None
    verdict: str
    reason: str
    group_type: str | None = None
    idle_since: datetime | None = None
    fingerprint: str | None = None
    rule: str | None = None
    owner: str | None = None
    family: str | None = None


class Target(NamedTuple):
    """A group, or a group's topic, by committed offsets: as judged, as backed up, and as it must be when it is deleted.

    :param group_type: the type of the group; ``unknown`` if the broker did not say.
    :param fingerprint: of its committed offsets.
    :param partitions: the number of these.
    :param group_epoch: the epoch of a group of KIP-848 when it was judged; ``None`` if there is none, or in a backup.
    :param topic: the topic whose offsets are deleted. Default: the group is deleted.
    """

    group_id: str
    group_type: str
    protocol_type: str
    fingerprint: str
    partitions: int = 0
    group_epoch: int | None = None
    topic: str | None = None

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return self.group_id if self.topic is None else name_of(self.group_id, self.topic)

    def part_of(self, offsets: GroupOffsets) -> GroupOffsets:
        """Return what of a group's offsets its deletion deletes."""
        if self.topic is None:
            return offsets
        return GroupOffsets(offsets.group_id, tuple(part for part in offsets.topics if part.topic == self.topic))

    def has_moved_on(self, group_epoch: int | None) -> bool:
        """Return whether a member joined or left since, by the group's epoch as it is now."""
        return None not in (group_epoch, self.group_epoch) and group_epoch != self.group_epoch


class PlanRows(Sequence[_Group]):
    """Groups of a plan: a sequence of objects that are made when they are asked for.

    :param table: a ``pyarrow.Table`` with the columns of ``schema``.
    """

    row: type[_Group]
    """The class of the objects. Its fields are the columns."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def schema(cls) -> Any:
        """Return the ``pyarrow.Schema`` of the columns."""
        return arrow_schema(tuple(each for each in PLAN_COLUMNS if each.name in cls._names()))

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in fields(cast("Any", cls.row))]

    @classmethod
    def of(cls, groups: Iterable[_Group]) -> Self:
        """Make the columns. Raises ``ValueError``, ``TypeError`` or ``OverflowError`` for what they cannot have."""
        import pyarrow as pa

        given, schema = list(groups), cls.schema()
        columns = [column([getattr(group, field.name) for group in given], field.type) for field in schema]
        return cls(pa.table(columns, schema=schema))

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, where: int) -> _Group: ...
    @overload
    def __getitem__(self, where: slice) -> tuple[_Group, ...]: ...
    def __getitem__(self, where: int | slice) -> _Group | tuple[_Group, ...]:
        if isinstance(where, slice):
            return tuple(self.take(range(*where.indices(len(self)))))
        return next(self._objects(self.table.slice(range(len(self))[where], 1)))

    def __iter__(self) -> Iterator[_Group]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._objects(self.table.slice(start, _AT_ONCE))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PlanRows):
            return type(self) is type(other) and bool(self.table.equals(other.table))
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)}>"

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return _values(self.table, name)

    def take(self, numbers: Sequence[int]) -> Self:
        """Return these groups, as columns."""
        import pyarrow as pa

        return type(self)(self.table.take(column(numbers, pa.int64())))

    def _objects(self, rows: Any) -> Iterator[_Group]:
        names = self._names()
        for values in zip(*(_values(rows, name) for name in names), strict=True):
            yield self.row(**dict(zip(names, values, strict=True)))


class PlannedGroups(PlanRows[PlannedGroup]):
    """What is to be deleted, longest idle first."""

    row = PlannedGroup

    def total(self, name: str) -> int:
        """Return the sum of a column over the groups of which it is known."""
        import pyarrow.compute as pc

        return int(pc.sum(self.table[name]).as_py() or 0)

    def targets(self) -> Iterator[Target]:
        """Yield what each has to look like still."""
        for start in range(0, len(self), _AT_ONCE):
            rows = self.table.slice(start, _AT_ONCE)
            columns = {name: rows[name].to_pylist() for name in Target._fields}
            few = {name: map(sys.intern, columns[name]) for name in ("group_type", "protocol_type")}
            yield from map(Target, *(columns | few).values())  # one string for all groups


class KeptGroups(PlanRows[KeptGroup]):
    """What is to be kept, sorted by id and topic."""

    row = KeptGroup

    @classmethod
    def of(cls, groups: Iterable[KeptGroup]) -> Self:
        """Make the columns."""
        return super().of(sorted(groups, key=lambda group: (group.group_id, group.topic or "")))


def _values(rows: Any, name: str) -> list[Any]:
    values: list[Any] = utc_times(rows[name]) if name in _TIMES else rows[name].to_pylist()
    return values


_ROW_GROUP = 16_384


def write_rows(planned: PlannedGroups, kept: KeptGroups) -> bytes:
    """Return the Parquet file of a plan's groups, all of them sorted by id."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schema = arrow_schema(PLAN_COLUMNS)
    parts = []
    for groups, place in ((planned, range(len(planned))), (kept, [None] * len(kept))):
        named = {name: groups.table[name] for name in groups.table.column_names}
        named["place"] = column(place, pa.int32())
        parts.append(pa.table([named.get(field.name, pa.nulls(len(groups), field.type)) for field in schema], schema))
    table = pa.concat_tables(parts)
    buffer = io.BytesIO()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in ("group_id", "topic", "place")])
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for start in range(0, max(len(table), 1), _ROW_GROUP):  # a sorted copy of all groups would take memory
            writer.write_table(table.take(order.slice(start, _ROW_GROUP)))
    return buffer.getvalue()


def read_rows(data: bytes) -> tuple[PlannedGroups, KeptGroups]:
    """Read what ``write_rows`` returned. Raises ``ValueError`` or ``KeyError`` for other content."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        place = _read(parquet, ["place"])["place"]
        order, count = pc.sort_indices(place), len(place) - place.null_count  # those without a place come last
        if place.take(order.slice(0, count)).to_pylist() != list(range(count)):
            raise ValueError("the places of the planned groups are not those of a list")
        found: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for name in (each.name for each in PLAN_COLUMNS if each.name != "place"):
            # One by one: a table of all would take as much again.
            values = _read(parquet, [name])[name].combine_chunks()
            for columns, numbers in zip(found, (order.slice(0, count), order.slice(count)), strict=True):
                columns[name] = values.take(numbers)
    del values
    release_unused()
    planned, kept = (
        pa.table([columns[name] for name in schema.names], schema.names).cast(schema)
        for columns, schema in zip(found, (PlannedGroups.schema(), KeptGroups.schema()), strict=True)
    )
    return PlannedGroups(planned), KeptGroups(kept)


def read_columns(data: bytes, names: Sequence[str]) -> Any:
    """Return columns of all groups, as a ``pyarrow.Table``. Raises ``ValueError`` for other content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        return _read(parquet, names)


def find_rows(table: Any, group_id: str) -> list[PlannedGroup | KeptGroup]:
    """Return the entries of one group in a table of all columns."""
    import pyarrow.compute as pc

    found = table.filter(pc.equal(table["group_id"], literal(group_id)))
    is_planned = pc.is_valid(found["place"])
    return [*PlannedGroups(found.filter(is_planned)), *KeptGroups(found.filter(pc.invert(is_planned)))]


def _read(parquet: Any, names: Sequence[str]) -> Any:
    columns = tuple(each for each in PLAN_COLUMNS if each.name in names)
    return read_known(parquet, columns).cast(arrow_schema(columns))
