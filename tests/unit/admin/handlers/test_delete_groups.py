"""A deletion that is more than a broker can write at once is split by its handler."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.exceptions import BrokerError, RemoteProtocolError
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome, of_deletion
from airflow_kafka_groups.protocol.answers import NO_THROTTLE, DeleteGroupsAnswer
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from tests.fakes import answers

TOO_MUCH = ErrorCode.unknown_server_error


def test_groups_that_were_too_much_together_are_asked_for_again_in_halves() -> None:
    codes = {"a": TOO_MUCH, "b": ErrorCode.none, "c": TOO_MUCH, "d": TOO_MUCH, "e": ErrorCode.non_empty_group}
    result = DeleteGroupsHandler().parse(3, list(codes), 2, answers.decoded(answers.delete_groups(2, codes)))
    assert result.split == (("a", "c"), ("d",))
    assert set(result.completed) == {"b"}
    assert set(result.failed) == {"e"}


def test_a_group_that_was_too_much_alone_fails_with_the_brokers_error() -> None:
    result = DeleteGroupsHandler().parse(3, ["a"], 2, answers.decoded(answers.delete_groups(2, {"a": TOO_MUCH})))
    assert result.split == ()
    error = result.failed["a"]
    assert isinstance(error, BrokerError)
    assert error.code == TOO_MUCH


def test_a_request_without_trouble_is_not_split() -> None:
    assert (
        DeleteGroupsHandler().parse(3, ["a"], 2, answers.decoded(answers.delete_groups(2, {"a": ErrorCode.none}))).split
        == ()
    )


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
