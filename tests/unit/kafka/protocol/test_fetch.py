"""Where the readable records of a log end, from the headers of batches."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.protocol.apis.fetch import ends_of

PRODUCER = 4_000


def batch(base: int, count: int = 1, attributes: int = 0, producer: int = -1, magic: int = 2) -> bytes:
    """Write the header of a batch, with a body of 9 bytes."""
    fields = (0, magic, 0, attributes, max(count - 1, 0), 0, 0, producer, 0, 0, count)
    return pack(">qi", base, 49 + 9) + pack(">ibIhiqqqhii", *fields) + b"record..."


DATA, MARKER = batch(10, 5, 0x10, PRODUCER), batch(15, 1, 0x30, PRODUCER)


@pytest.mark.parametrize(
    ("batches", "aborted", "ends"),
    [
        ((), [], (0, 0)),
        ((batch(10, 5),), [], (15, 15)),
        ((MARKER,), [], (16, 0)),
        ((DATA, MARKER), [], (16, 15)),
        ((DATA, MARKER), [(PRODUCER, 10)], (16, 0)),
        ((DATA, MARKER), [(PRODUCER, 3)], (16, 0)),  # it began before what was fetched
        ((DATA, MARKER), [(PRODUCER + 1, 10)], (16, 15)),
        ((DATA, MARKER, batch(16, 1, 0x10, PRODUCER)), [(PRODUCER, 10)], (17, 17)),  # the next transaction
        ((DATA, MARKER, batch(16, 1, 0x10, PRODUCER)), [(PRODUCER, 10), (PRODUCER, 16)], (17, 0)),
        ((DATA, batch(15, 1, 0, PRODUCER)), [(PRODUCER, 10)], (16, 16)),  # not in a transaction
        ((batch(10, 0),), [], (11, 0)),  # what compaction leaves of a producer
        ((MARKER, batch(16)[:-1]), [], (16, 0)),
        ((MARKER, batch(16, magic=1)), [], (16, 0)),
    ],
)
def test_markers_and_aborted_records_are_not_readable(
    batches: tuple[bytes, ...], aborted: list[tuple[int, int]], ends: tuple[int, int]
) -> None:
    assert ends_of(b"".join(batches), aborted) == ends


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    ends_of(data, [])
    ends_of(MARKER + data, [(PRODUCER, 3)])
