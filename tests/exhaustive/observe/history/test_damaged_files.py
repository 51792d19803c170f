"""A snapshot's file with a flipped bit is read as it was written or not at all, also outside of checksums."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.judge.staleness.observations import reduce_file
from airflow_kafka_groups.observe.history.snapshot_rows import UnusableFileError
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS
from tests.histories.shorthand import ARROW_SCHEMA, flat, parquet, seen, snapshot_id

STRINGS = [each.name for each in SNAPSHOT_COLUMNS if each.kind == "string"]
HEADER = 24
"""At least the bytes before a page's content. Checksums cover the content only."""


def reduce(content: bytes) -> pa.Table:
    return reduce_file(pa.BufferReader(content), snapshot_id(0))


@pytest.mark.parametrize("column", STRINGS)
def test_a_flipped_bit_before_a_dictionary_makes_no_value_null(column: str) -> None:
    errors = ["not authorized", None, "timed out", None]
    rows = flat([seen(0, group=f"g{number}", error=error) for number, error in enumerate(errors)])
    content = parquet(rows)
    expected = reduce(content)
    chunk = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(ARROW_SCHEMA.get_field_index(column))
    refused = 0
    for place in range(chunk.dictionary_page_offset, chunk.dictionary_page_offset + HEADER):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                assert reduce(bytes(flipped)).equals(expected), (place, bit)
            except UnusableFileError:
                refused += 1
    assert refused > HEADER


@pytest.mark.parametrize("column", ["group_id", "topic", "metadata", "state", "error", "run_id"])
def test_a_string_that_is_not_utf_8_is_named_as_what_cannot_be_read(column: str) -> None:
    table = pa.Table.from_pylist(flat([seen(0, error="not authorized")]), ARROW_SCHEMA)
    damaged = pa.array([b"\xff"], pa.binary()).view(pa.string())
    buffer = io.BytesIO()
    pq.write_table(table.set_column(ARROW_SCHEMA.get_field_index(column), column, damaged), buffer)
    with pytest.raises(UnusableFileError, match="it cannot be read as Parquet"):
        reduce(buffer.getvalue())


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_a_time_in_another_unit_is_refused(unit: str) -> None:
    """One bit of a file's footer, which has no checksum, makes nanoseconds of microseconds: it would be 1970."""
    column = ARROW_SCHEMA.get_field_index("observed_at")
    schema = ARROW_SCHEMA.set(column, pa.field("observed_at", pa.timestamp(unit, tz="UTC")))
    with pytest.raises(
        UnusableFileError, match=rf"column observed_at is timestamp\[{unit}, tz=UTC\], not timestamp\[us"
    ):
        reduce(parquet(seen(0), schema))


def test_a_flipped_bit_in_the_footer_moves_no_time() -> None:
    content = parquet(seen(0))
    expected = reduce(content)["observed_at"]
    size = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - size, len(content) - 8):
        flipped = bytearray(content)
        flipped[place] ^= 0b0001_0000
        try:
            assert reduce(bytes(flipped))["observed_at"].equals(expected), place
        except UnusableFileError:
            continue
