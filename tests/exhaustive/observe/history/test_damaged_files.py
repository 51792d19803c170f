"""A damaged snapshot's file is read as it was written or not at all, also without checksums."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.history.snapshot_rows import UnusableFileError
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS
from tests.histories import shorthand
from tests.histories.judged import judge
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import ARROW_SCHEMA, flat, parquet, seen, snapshot_id

STRINGS = [each.name for each in SNAPSHOT_COLUMNS if each.kind == "string"]
HEADER = 24
"""At least the bytes before a page's content. Checksums cover the content only."""


def reduce(content: bytes) -> pa.Table:
    return shorthand.reduce(content, snapshot_id(0))


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


TEXTS = ("run_id", "group_id", "group_type", "protocol_type", "state", "error", "topic", "metadata")
NO_TEXT = pa.array([b"\xff"], pa.binary()).view(pa.string())


def no_time(micros: int) -> pa.Array:
    return pa.array([micros], pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        *((name, NO_TEXT, "it cannot be read as Parquet .*UTF8") for name in TEXTS),
        *(
            ("observed_at", no_time(micros), "column observed_at has times before 1970 or beyond the year 8999")
            for micros in (-1, 221_845_392_000_000_000, 253_402_300_800_000_000, 2**63 - 1)
        ),
    ],
)
def test_the_snapshot_and_its_file_are_named(tmp_path: Path, name: str, values: pa.Array, problem: str) -> None:
    for number in range(2):
        write_snapshot(tmp_path, number, seen(number))
    part = tmp_path / CLUSTER / "data" / snapshot_id(1) / "part-00000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.set_column(table.column_names.index(name), name, values), part)
    with pytest.raises(SnapshotError, match=f"{snapshot_id(1)} is incomplete or was changed: part-00000.*: {problem}"):
        judge(tmp_path)
    assert not (tmp_path / CLUSTER / "summaries" / "observations" / f"{snapshot_id(1)}.json").exists()
