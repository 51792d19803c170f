"""The cluster that most tests of backups are about."""

from airflow_kafka_groups.change.backup.file import BackedUpGroup
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from tests.fakes.admin import FakeAdmin

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def cluster() -> FakeAdmin:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5), ("t", 1, 6))
    admin.add("b", ("gone", 3, 9))
    admin.groups["b"].offsets[T1] = OffsetAndMetadata(0, 'note "é"', None)
    admin.ends = {T0: (2, 50), T1: (0, 7)}
    return admin


def log_ends_of(group: BackedUpGroup) -> dict[TopicPartition, tuple[int, ...]]:
    """Return (log start, log end) of each partition, -1 for one that is not known."""
    return dict(zip(group.offsets, zip(*group.bounds, strict=True), strict=True))
