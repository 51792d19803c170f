"""The logs that a restore finds: when an offset may go back into one."""

from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition
from airflow_kafka_groups.observe.log_ends import log_ends
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = (0, 1)


async def test_the_ends_of_a_log_are_two_numbers_or_a_reason() -> None:
    admin = FakeAdmin(log=(0, 10))
    gone, empty, strange = (TopicPartition("x", index) for index in range(3))
    admin.ends = {gone: broker_error("UNKNOWN_TOPIC_OR_PARTITION"), empty: (3, 3), strange: ListedOffset(-1)}
    found = await log_ends(admin, [T0, gone, empty, strange, T0])
    assert (found[T0], found[empty]) == ((0, 10), (3, 3))
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(found[gone])
    assert isinstance(found[strange], str)
    admin.calls.clear()
    assert await log_ends(admin, []) == {}
    assert admin.calls == []
