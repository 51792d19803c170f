"""What a change reads back, as brokers send it, beside what it committed."""

import struct
from typing import cast

import pytest

from airflow_kafka_groups.change.restore import commit_changes
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicOffsets, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Commits

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WANTED = cast(
    "Commits", GroupOffsets.from_mapping("a", {T0: OffsetAndMetadata(7), T1: OffsetAndMetadata(9, leader_epoch=2)})
)
_SENT = b"\x01\x00\x00\x00"  # after partition, offset and epoch: empty metadata, no error, no tags


@pytest.mark.parametrize(
    ("rows", "differ"),
    [
        ([(0, 7, -1), (1, 9, 2)], []),
        ([(1, 9, 2), (5, 3, -1), (0, 7, -1)], []),
        ([(0, 7, -1), (1, 8, 2)], [T1]),
        ([(0, 7, -1)], [T1]),
    ],
    ids=["equal", "in another order, among others", "another offset", "one lacks"],
)
def test_what_a_broker_sends_back_is_compared_by_column(
    rows: list[tuple[int, int, int]], differ: list[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapping for each of 60,000 groups takes longer than all else that is done with them."""
    packed = b"".join(struct.pack(">iqi", *row) + _SENT for row in rows)
    read = GroupOffsets("a", (TopicOffsets.packed("t", packed),))
    assert commit_changes._differing(read, WANTED) == differ
    if not differ:
        monkeypatch.setattr(GroupOffsets, "get", None)
        assert commit_changes._differing(read, WANTED) == []
