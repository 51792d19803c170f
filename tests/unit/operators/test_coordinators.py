from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    IncompleteListingError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.models import CoordinatorType
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error


def execute(**arguments: Any) -> dict[str, Any]:
    return FindCoordinatorsOperator(task_id="t", **arguments).execute({})


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup(coordinator=1 + i % 2) for i, name in enumerate(("a1", "a2", "b1", "b2"))}


def test_all_groups_are_counted_by_broker() -> None:
    assert execute() == {
        "groups": 4,
        "brokers": {"1": {"address": "b1:9092", "groups": 2}, "2": {"address": "b2:9092", "groups": 2}},
        "failed": 0,
        "failures": {},
        "duplicates_removed": 0,
    }
    assert execute(include=["a*"], exclude=["*2"])["groups"] == 1


def test_named_groups_lose_their_duplicates_and_need_no_listing(admin: FakeAdmin) -> None:
    assert execute(group_ids=["a1", "b1", "a1"])["duplicates_removed"] == 1
    assert admin.call_names == ["find"]
    assert execute(group_ids='["a1", "b1"]')["groups"] == 2, "a template renders a list to text"


def test_a_failed_group_is_in_the_result_unless_told_to_fail(admin: FakeAdmin) -> None:
    admin.errors["a1"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    found = execute()
    assert (found["groups"], found["failed"]) == (4, 1)
    assert "GROUP_AUTHORIZATION_FAILED" in found["failures"]["a1"]
    with pytest.raises(GroupsFailedError, match="a1"):
        execute(fail_on_error=True)


def test_only_the_first_failures_go_to_xcom(admin: FakeAdmin) -> None:
    admin.groups = {f"g{i:03}": FakeGroup() for i in range(100)}
    admin.errors = {f"g{i:03}": broker_error("NOT_COORDINATOR") for i in range(1, 100)}
    found = execute()
    assert (found["failed"], len(found["failures"])) == (99, 20)


def test_the_task_fails_when_no_coordinator_at_all_is_found(admin: FakeAdmin) -> None:
    admin.errors = {name: broker_error("COORDINATOR_NOT_AVAILABLE") for name in admin.groups}
    with pytest.raises(GroupsFailedError, match="4 of 4"):
        execute()


def test_a_listing_that_misses_a_broker_fails_the_task_and_an_empty_one_does_not(admin: FakeAdmin) -> None:
    admin.groups = {}
    assert execute()["groups"] == 0
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    with pytest.raises(IncompleteListingError, match="broker 2"):
        execute()


def test_transactional_ids_have_coordinators_of_their_own(admin: FakeAdmin) -> None:
    assert execute(transactional_ids=["tx-1", "tx-2", "tx-1"]) == {
        "transactional_ids": 2,
        "brokers": {"1": {"address": "b1:9092", "transactional_ids": 2}},
        "failed": 0,
        "failures": {},
        "duplicates_removed": 1,
    }
    assert admin.key_types == [CoordinatorType.TRANSACTION]
    with pytest.raises(ConfigurationError, match="at most one"):
        FindCoordinatorsOperator(task_id="t", group_ids=["a"], transactional_ids=["x"])
