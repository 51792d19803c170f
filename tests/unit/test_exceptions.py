"""The exception tree is the one that its module draws."""

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition

BROKER_ERROR = exceptions.BrokerError(68, "NON_EMPTY_GROUP", "it has members", api="DeleteGroups", broker_id=1)
SAMPLES: dict[type[KafkaGroupsError], tuple[Any, ...]] = {
    exceptions.ArgumentError: ("--base", "x", "give a folder"),
    exceptions.ClientClosedError: (),
    exceptions.ConfigurationError: ("port", "x", "give a number"),
    exceptions.ConnectionFailedError: ("b1:9092", "refused"),
    exceptions.AuthenticationFailedError: ("b1:9092", "refused"),
    exceptions.NoBrokerAvailableError: ("b1:9092", "refused"),
    exceptions.PartitionsFailedError: ("g", {TopicPartition("t", 0): BROKER_ERROR}),
    exceptions.PartitionOffsetsError: ("g", {TopicPartition("t", 0): BROKER_ERROR}, GroupOffsets("g")),
    exceptions.IncompleteListingError: ({1: BROKER_ERROR},),
    exceptions.UnexpectedGroupTypeError: ("g", "share"),
    exceptions.GroupsFailedError: ({"g": BROKER_ERROR}, 2),
    exceptions.InvalidAssignmentError: ("g", ["m1"], ["m2"]),
    exceptions.QuietTimeError: ("it is Sunday", None),
}
"""The arguments of errors that are made of other things than a message."""
ERRORS = [each for _, each in inspect.getmembers(exceptions, inspect.isclass) if issubclass(each, KafkaGroupsError)]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("moved", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_an_error_arrives_in_another_process_as_it_was(
    kind: type[KafkaGroupsError], moved: Callable[[KafkaGroupsError], KafkaGroupsError]
) -> None:
    of_group = issubclass(kind, exceptions.MembershipError)
    arguments = SAMPLES.get(kind, ("g", "it ended") if of_group else ("it failed",))
    error = copy.copy(BROKER_ERROR) if kind is exceptions.BrokerError else kind(*arguments)
    error.add_note("a note")
    there = moved(error)
    assert (type(there), str(there), there.args) == (kind, str(error), error.args)
    assert {name: str(value) for name, value in vars(there).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


def test_results_with_a_failed_group_arrive_in_another_process() -> None:
    results = GroupResults([GroupResult[None]("g", error=BROKER_ERROR)])
    (error,) = pickle.loads(pickle.dumps(results)).failed.values()
    assert (error.code, error.broker_id, str(error)) == (68, 1, str(BROKER_ERROR))


def test_the_drawing_shows_every_error_in_its_place() -> None:
    drawn: dict[str, int] = {}
    for line in (exceptions.__doc__ or "").splitlines():
        if found := re.match(r"([\s│├└─]*)(\w+Error)\b", line):
            drawn[found[2]] = len(found[1]) // 4
    defined = {
        name: len([base for base in cls.__mro__ if issubclass(base, KafkaGroupsError)]) - 1
        for name, cls in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(cls, KafkaGroupsError)
    }
    base = drawn["KafkaGroupsError"]
    assert {name: depth - base for name, depth in drawn.items()} == defined


def test_bad_input_names_field_value_and_remedy_but_no_secret() -> None:
    assert str(ConfigurationError("port", "x", "give a number")) == "port (got 'x'): give a number"
    assert str(ConfigurationError("password", None, "is missing")) == "password: is missing"
    assert len(str(ConfigurationError("ids", "x" * 5000, "too long"))) < 200
