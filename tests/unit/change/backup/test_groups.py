import pyarrow as pa

from airflow_kafka_groups.change.backup.file import groups_of
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.snapshot.reader import GroupBlock
from tests.unit.change.backup.scene import log_ends_of


def test_rows_of_a_topic_that_lie_apart_come_together_and_keep_their_order() -> None:
    names = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_start", "log_end")
    rows = [
        ("x", 9, 90, 1, "", 0, 99),  # of a group before: the columns of the next one begin in the middle
        ("t", 1, 10, None, "", 0, 11),
        ("u", 0, 20, 2, "m", None, None),
        ("t", 0, 30, 3, "", 1, 31),
    ]
    types = (pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.string(), pa.int64(), pa.int64())
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    ids = pa.array(["before", "g", "g", "g"])
    block = GroupBlock(pa.record_batch([ids, *columns], names=["group_id", *names]).slice(1))
    entry = Target(group_id="g", group_type="classic", protocol_type="consumer", partitions=3, fingerprint="f")
    (group,) = groups_of(block, [entry])
    assert [(topic.topic, len(topic)) for topic in group.offsets.topics] == [("t", 2), ("u", 1)]
    assert dict(group.offsets) == {
        TopicPartition("t", 1): OffsetAndMetadata(10),
        TopicPartition("t", 0): OffsetAndMetadata(30, "", 3),
        TopicPartition("u", 0): OffsetAndMetadata(20, "m", 2),
    }
    assert log_ends_of(group) == {
        TopicPartition("t", 1): (0, 11),
        TopicPartition("t", 0): (1, 31),
        TopicPartition("u", 0): (-1, -1),
    }
