"""The Parquet file with the groups of a plan, sorted by id.

Hundreds of thousands of groups are written and read in a fraction of a second, and one is found without reading all.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from airflow_kafka_groups.ledger.plan_rows import (
    KeptGroup,
    KeptGroups,
    PlannedGroup,
    PlannedGroups,
    kept_schema,
    planned_schema,
)
from airflow_kafka_groups.storage.arrow_schema import arrow_schema
from airflow_kafka_groups.storage.arrow_values import column, literal, release_unused
from airflow_kafka_groups.storage.columns import PLAN_COLUMNS

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
    order = pc.sort_indices(table, sort_keys=[("group_id", "ascending"), ("place", "ascending")])
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
        for name in (*planned_schema().names, "verdict"):  # one by one: a table of all would take as much again
            values = _read(parquet, [name])[name].combine_chunks()
            for columns, numbers in zip(found, (order.slice(0, count), order.slice(count)), strict=True):
                columns[name] = values.take(numbers)
    del values
    release_unused()
    planned, kept = (
        pa.table([columns[name] for name in schema.names], schema.names).cast(schema)
        for columns, schema in zip(found, (planned_schema(), kept_schema()), strict=True)
    )
    return PlannedGroups(planned), KeptGroups(kept)


def find_rows(data: bytes, group_id: str) -> list[PlannedGroup | KeptGroup]:
    """Return the entries of one group. Only the parts of the file that can have it are decoded.

    Raises ``ValueError`` or ``KeyError`` for other content.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        groups = [n for n in range(parquet.num_row_groups) if _may_have(parquet.metadata.row_group(n), group_id)]
        table = _read(parquet, arrow_schema(PLAN_COLUMNS).names, groups)
    found = table.filter(pc.equal(table["group_id"], literal(group_id)))
    is_planned = pc.is_valid(found["place"])
    return [*PlannedGroups(found.filter(is_planned)), *KeptGroups(found.filter(pc.invert(is_planned)))]


def _may_have(row_group: Any, group_id: str) -> bool:
    statistics = row_group.column(0).statistics
    if statistics is None or not statistics.has_min_max:  # Parquet leaves very long ones out
        return True
    return bool(statistics.min <= group_id <= statistics.max)


def _read(parquet: Any, names: Sequence[str], row_groups: Sequence[int] | None = None) -> Any:
    """Return columns. Raises ``ValueError`` or ``KeyError`` for other content.

    :param row_groups: the parts of the file to read. Default: all.
    """
    import pyarrow as pa

    schema = arrow_schema(PLAN_COLUMNS)
    schema = pa.schema([schema.field(name) for name in names])
    parts = range(parquet.num_row_groups) if row_groups is None else row_groups
    # More threads decode a small file no sooner, and each keeps memory of its own.
    table = parquet.read_row_groups(parts, columns=list(names), use_threads=False)
    table = table.select(schema.names)
    if not table.schema.equals(schema):
        raise ValueError("its columns are not those of a plan")
    return table
