"""What the answers to a deletion mean for each of its groups."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import BrokerError, RemoteProtocolError
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, DeleteGroupsAnswer
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.ledger.outcomes import Outcome, of_deletion
from tests.fakes import answers

TOO_MUCH = ErrorCode.unknown_server_error


def test_a_group_that_was_too_much_fails_with_the_brokers_error() -> None:
    """Of several, the engine asks again in halves (see the driver's own tests)."""
    codes = {"a": TOO_MUCH, "b": ErrorCode.none, "c": TOO_MUCH, "e": ErrorCode.non_empty_group}
    result = DeleteGroupsHandler().parse(3, list(codes), 2, answers.decoded(answers.delete_groups(2, codes)))
    assert set(result.completed) == {"b"}
    assert result.failed_together(list(codes)) == ["a", "c"]
    error = result.failed["a"]
    assert isinstance(error, BrokerError)
    assert error.code == TOO_MUCH


@pytest.mark.safety
@pytest.mark.parametrize("code", [ErrorCode.non_empty_group, ErrorCode.group_authorization_failed, TOO_MUCH])
def test_a_group_that_is_said_to_be_deleted_and_not_deleted_is_of_unknown_outcome(code: ErrorCode) -> None:
    """A clear refusal would be on record, and the group may be gone."""
    answer = DeleteGroupsAnswer(NO_THROTTLE, ["a", "b", "b"], [("a", code), ("c", code), ("c", code)])
    result = DeleteGroupsHandler().parse(3, ["a", "b", "c"], 2, answer)
    assert of_deletion("a", result.failed["a"]).outcome is Outcome.UNKNOWN
    assert isinstance(result.failed["a"], RemoteProtocolError)
    assert ("b" in result.failed, "b" in result.completed) == (False, True)
    assert isinstance(result.failed.get("c"), BrokerError | None)


@pytest.mark.safety
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_code_that_nobody_knows_leaves_a_deletion_of_unknown_outcome(version: int) -> None:
    """Kafka 4.4 has more codes than this client: the group may be gone, and the others of the request are known."""
    codes = {"a": ErrorCode(134), "b": ErrorCode.none, "c": ErrorCode.non_empty_group}
    answer = answers.decoded(answers.delete_groups(version, codes))
    result = DeleteGroupsHandler().parse(3, list(codes), version, answer)
    assert "UNKNOWN_ERROR_CODE (134)" in str(result.failed["a"])
    assert of_deletion("a", result.failed["a"]).outcome is Outcome.UNKNOWN
    assert set(result.completed) == {"b"}
