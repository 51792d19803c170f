"""Two clusters in memory, one with mirrors of the other's topics: their records are known."""

from collections.abc import Iterable, Mapping, Sequence

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.records import LogRecord
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup

HEADER = "redpanda-migrator-offset"


def record(offset: int, time_ms: int, value: str, source: int | None = None) -> LogRecord:
    """Return a record; of a mirror, with the header that names its source offset."""
    headers = [] if source is None else [(HEADER, source.to_bytes(8, "big"))]
    return LogRecord(offset, time_ms, b"key", value.encode(), headers)


class RecordedAdmin(FakeAdmin):
    """A fake cluster whose partitions have records; the log begins and ends where ``logs`` says."""

    def __init__(
        self,
        cluster: str,
        logs: Mapping[TopicPartition, tuple[int, Sequence[LogRecord], int]],
        groups: Mapping[str, FakeGroup] | None = None,
    ) -> None:
        super().__init__(groups)
        self.cluster = cluster
        self.records = {where: records for where, (_, records, _) in logs.items()}
        self.ends.update({where: (start, end) for where, (start, _, end) in logs.items()})

    def _listed(self, where: TopicPartition, spec: OffsetSpec) -> ListedOffset | KafkaGroupsError:
        if spec.timestamp < 0 or where not in self.records:
            return super()._listed(where, spec)
        found = (ListedOffset(each.offset, each.timestamp) for each in self.records[where])
        return next((each for each in found if each.timestamp >= spec.timestamp), ListedOffset(-1))

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        counts = {topic: sum(where.topic == topic for where in self.ends) for topic in topics}
        return MetadataAnswer(self.cluster, (), partition_counts={name: of for name, of in counts.items() if of})
