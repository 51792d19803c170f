"""How much a commit makes a broker write."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, OutcomeUnknownError, PartitionsFailedError
from airflow_kafka_groups.kafka.admin.handlers.change_group_offsets import (
    Commits,
    commit_bytes,
    commit_slices,
    smaller_slices,
)
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import BUDGET_BYTES, MAX_BATCH_BYTES
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_COMMIT
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error


def commits_of(count: int, metadata: str = "", topic: str = "t" * 40) -> Commits:
    values = {TopicPartition(topic, partition): OffsetAndMetadata(partition, metadata) for partition in range(count)}
    return cast("Commits", GroupOffsets.from_mapping("g", values))


def failure(code: ErrorCode, commits: Commits) -> PartitionsFailedError:
    return PartitionsFailedError("g", dict.fromkeys(commits, broker_error(code, OFFSET_COMMIT)))


def test_what_failed_on_a_broker_is_more_than_a_batch_and_what_groups_usually_have_is_not() -> None:
    assert commit_bytes("g", commits_of(300, "m" * 4_000)) > MAX_BATCH_BYTES
    assert commit_bytes("g" * 60, commits_of(10_000)) > MAX_BATCH_BYTES
    assert commit_bytes("g" * 60, commits_of(2_000)) < BUDGET_BYTES


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=9), st.integers(0, 99)), st.tuples(st.integers(0, 9), st.text(max_size=300))
    ),
    st.integers(1, 2_000),
)
def test_slices_have_each_offset_once_in_its_order_and_none_is_too_large(
    rows: dict[tuple[str, int], tuple[int, str]], budget: int
) -> None:
    values = {TopicPartition(*where): OffsetAndMetadata(offset, text, 4) for where, (offset, text) in rows.items()}
    columns = cast("Commits", GroupOffsets.from_mapping("g", values))
    slices = commit_slices("g", columns, budget)
    assert [item for part in slices for item in part.items()] == list(columns.items())
    assert all(commit_bytes("g", part) <= budget or len(part) == 1 for part in slices)


@pytest.mark.parametrize("code", [ErrorCode.invalid_commit_offset_size, ErrorCode.unknown_server_error])
def test_what_was_too_much_is_halved(code: ErrorCode) -> None:
    commits = commits_of(300, "m" * 100)
    first, second = smaller_slices("g", commits, failure(code, commits))
    assert dict(first.items()) | dict(second.items()) == dict(commits.items())
    assert abs(len(first) - len(second)) <= 1


def test_another_error_is_no_reason_to_ask_again_in_parts() -> None:
    commits, few = commits_of(300, "m" * 100), commits_of(10)
    others: list[KafkaGroupsError | None] = [
        None,
        OutcomeUnknownError("lost"),
        broker_error(ErrorCode.unknown_server_error, OFFSET_COMMIT),
        failure(ErrorCode.unknown_member_id, commits),
        failure(ErrorCode.unknown_server_error, commits_of(299)),
        PartitionsFailedError("g", dict.fromkeys(commits, OutcomeUnknownError("lost"))),
    ]
    assert [smaller_slices("g", commits, error) for error in others] == [[]] * len(others)
    assert smaller_slices("g", few, failure(ErrorCode.unknown_server_error, few)) == [], "few would not be too much"
    one = commits_of(1, "m" * 40_000)
    assert smaller_slices("g", one, failure(ErrorCode.unknown_server_error, one)) == []
    assert BrokerError in {
        type(each) for each in failure(ErrorCode.unknown_server_error, few).partition_errors.values()
    }
