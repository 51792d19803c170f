"""The logs that a restore finds: when an offset may go back into one."""

import pytest

from airflow_kafka_groups.change.restore.current_logs import CurrentLogs, log_ends
from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = (0, 1)


def test_what_is_known_of_all_partitions_is_in_columns() -> None:
    logs = CurrentLogs({T0: (1, 10), T1: (2, 20)}, {})
    assert logs.columns("t", BOTH) == ((1, 2), (10, 20))
    assert logs.columns("t", (1,)) == ((2,), (20,))


@pytest.mark.parametrize(
    ("logs", "partitions"),
    [
        pytest.param(CurrentLogs({T0: (1, 10)}, {}), BOTH, id="one is missing"),
        pytest.param(CurrentLogs({T0: (1, 10), T1: "cannot be read"}, {}), BOTH, id="one cannot be read"),
        pytest.param(CurrentLogs({T0: (1, 10), T1: (2, 20)}, {"t": "recreated"}), BOTH, id="recreated"),
        pytest.param(CurrentLogs({T0: (1, 10)}, {}), (), id="no partition"),
    ],
)
def test_columns_are_all_or_nothing(logs: CurrentLogs, partitions: tuple[int, ...]) -> None:
    assert logs.columns("t", partitions) is None


@pytest.mark.parametrize(
    ("offset", "old", "reason"),
    [
        (1, (1, 10), None),
        (10, (-1, -1), None),
        (0, (-1, -1), "offset 0 is outside the log, 1 to 10"),
        (11, (-1, -1), "offset 11 is outside the log, 1 to 10"),
        (5, (2, 10), "the topic was recreated or truncated: its log is 1 to 10 and was 2 to 10"),
        (5, (1, 11), "the topic was recreated or truncated: its log is 1 to 10 and was 1 to 11"),
        (5, (-1, 11), "the topic was recreated or truncated: its log is 1 to 10 and was None to 11"),
    ],
)
def test_an_offset_goes_back_only_into_the_log_it_was_committed_for(
    offset: int, old: tuple[int, int], reason: str | None
) -> None:
    assert CurrentLogs({T0: (1, 10)}, {}).why_skipped(T0, offset, *old) == reason


def test_a_partition_that_is_not_known_is_skipped() -> None:
    logs = CurrentLogs({T0: "no leader"}, {"u": "its id is x and was y"})
    assert logs.why_skipped(T0, 5, 1, 10) == "no leader"
    assert logs.why_skipped(T1, 5, 1, 10) == "the log start and end are unknown"
    assert logs.why_skipped(TopicPartition("u", 0), 5, 1, 10) == "its id is x and was y"


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
