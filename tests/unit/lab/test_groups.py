"""Groups are committed where Kafka keeps them, in the bytes Kafka expects."""

from __future__ import annotations

import pytest
from kio.schema.offset_commit.v7 import OffsetCommitRequest
from kio.serial import entity_reader

from tests.lab.wire import CLIENT_ID
from tests.lab.workload import groups


@pytest.mark.parametrize(
    ("group_id", "java_hash"),  # as Java prints them
    [
        ("", 0),
        ("abc", 96354),
        ("zzzzzz", -685785664),
        ("orders-group-01", -130660873),
        ("console-consumer-61273", 163042450),
        ("😀", 1772899),  # two UTF-16 units
    ],
)
def test_coordinator_partition_follows_javas_hash(group_id: str, java_hash: int) -> None:
    assert groups.coordinator_partition(group_id, 50) == abs(java_hash) % 50


def test_the_one_hash_without_an_absolute_value_goes_to_partition_zero() -> None:
    assert groups.coordinator_partition("polygenelubricants", 50) == 0  # hashCode() == Integer.MIN_VALUE


def test_a_request_put_together_from_parts_reads_as_a_whole() -> None:
    tail = groups._encode_tail({("t", 0): 5, ("t", 3): 7, ("u", 0): 1})
    request = groups._request("grüppe", tail)
    assert len(request) == 4 + int.from_bytes(request[:4], "big")
    read, _ = entity_reader(OffsetCommitRequest)(request, 4 + 2 + 2 + 4 + 2 + len(CLIENT_ID))
    assert read.group_id == "grüppe"
    assert read.generation_id_or_member_epoch == -1
    found = {(t.name, p.partition_index): p.committed_offset for t in read.topics for p in t.partitions}
    assert found == {("t", 0): 5, ("t", 3): 7, ("u", 0): 1}


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_every_group_is_given_to_exactly_one_connection(count: int) -> None:
    names = [f"g{number}" for number in range(count)]
    shares = groups._shares(names)
    assert sorted(name for share in shares for name in share) == sorted(names)
    assert len(shares) <= groups.CONNECTIONS
