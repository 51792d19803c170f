"""The tasks that list, describe, chunk and locate groups."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    IncompleteListingError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.models import CoordinatorType, GroupState, GroupType
from airflow_kafka_groups.operators import groups as module
from airflow_kafka_groups.operators.groups import (
    ChunkGroupsOperator,
    DescribeGroupsOperator,
    FindCoordinatorsOperator,
    ListGroupsOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error


def run(kind: Any, **arguments: Any) -> Any:
    found = kind(task_id="t", **arguments).execute({})
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {f"g{i}": FakeGroup(coordinator=1 + i % 2) for i in range(5)}
    admin.groups["live"] = FakeGroup(state=GroupState.STABLE, type=GroupType.CONSUMER, members=2)


def test_groups_are_listed_by_pattern_state_and_type() -> None:
    found = run(ListGroupsOperator)
    assert (found["count"], found["states"], found["path"]) == (6, {"Empty": 5, "Stable": 1}, None)
    assert list(found["groups"][0].values()) == ["g0", "Empty", "classic", "consumer", 1]
    assert run(ListGroupsOperator, include=["g*"], exclude=["g0"])["count"] == 4
    assert run(ListGroupsOperator, states=["stable"])["count"] == 1
    assert run(ListGroupsOperator, types='["classic"]')["count"] == 5


def test_brokers_do_not_filter_the_list(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a filtered one nobody knows which partitions are being loaded: the rest would pass for all groups."""
    asked, listed = list[Any](), admin.list_groups

    async def noted(**filters: Any) -> Any:
        asked.append(filters)
        return await listed(**filters)

    monkeypatch.setattr(admin, "list_groups", noted)
    assert run(ListGroupsOperator, states=["Stable"], types=["consumer"])["count"] == 1
    assert asked == [{}]


def test_a_long_list_is_in_a_file_and_never_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MAX_XCOM_GROUPS", 3)
    with pytest.raises(ConfigurationError, match="storage_path"):
        run(ListGroupsOperator)
    found = run(ListGroupsOperator, storage_path=str(tmp_path), cluster="prod")
    assert (found["count"], found["groups"]) == (6, None)
    assert len(json.loads(Path(found["path"]).read_text())["groups"]) == 6


def test_groups_are_described(admin: FakeAdmin) -> None:
    admin.errors["g1"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    found = run(DescribeGroupsOperator, group_ids=["live", "g1", "gone", "live"])
    assert (found["states"], found["failed"]) == ({"Stable": 1, "Dead": 1}, 1)
    assert found["groups"][0]["members"] == 2
    gone = found["groups"][1]
    assert (gone["group_id"], gone["type"], gone["protocol_type"]) == ("gone", "unknown", ""), "brokers name any type"
    assert "AUTHORIZATION" in found["failures"]["g1"]
    with pytest.raises(GroupsFailedError):
        run(DescribeGroupsOperator, group_ids=["live", "g1"], fail_on_error=True)


def test_chunks_are_of_one_coordinator_each_and_balanced(admin: FakeAdmin) -> None:
    assert run(ChunkGroupsOperator, include=["g*"], chunk_size="2") == [["g0"], ["g2", "g4"], ["g1", "g3"]]
    admin.groups = {f"g{i:03}": FakeGroup() for i in range(101)}
    chunks = run(ChunkGroupsOperator, chunk_size=50)
    assert [len(chunk) for chunk in chunks] == [33, 34, 34]
    assert sorted(group_id for chunk in chunks for group_id in chunk) == sorted(admin.groups)
    admin.groups = {}
    assert run(ChunkGroupsOperator) == []


def test_nothing_is_left_out_silently(admin: FakeAdmin) -> None:
    admin.errors["g1"] = broker_error("COORDINATOR_NOT_AVAILABLE")
    with pytest.raises(GroupsFailedError, match="g1"):
        run(ChunkGroupsOperator)
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    for kind in (ListGroupsOperator, ChunkGroupsOperator):
        with pytest.raises(IncompleteListingError):
            run(kind)


def test_all_groups_are_counted_by_broker() -> None:
    assert run(FindCoordinatorsOperator) == {
        "groups": 6,
        "brokers": {"1": {"address": "b1:9092", "groups": 4}, "2": {"address": "b2:9092", "groups": 2}},
        "failed": 0,
        "failures": {},
        "duplicates_removed": 0,
    }
    assert run(FindCoordinatorsOperator, include=["g*"], exclude=["*2"])["groups"] == 4


def test_named_groups_lose_their_duplicates_and_need_no_listing(admin: FakeAdmin) -> None:
    assert run(FindCoordinatorsOperator, group_ids=["g0", "g1", "g0"])["duplicates_removed"] == 1
    assert admin.call_names == ["find"]
    assert run(FindCoordinatorsOperator, group_ids='["g0", "g1"]')["groups"] == 2, "a template renders a list to text"


def test_a_failed_group_is_in_the_result_unless_told_to_fail(admin: FakeAdmin) -> None:
    admin.errors["g1"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    found = run(FindCoordinatorsOperator)
    assert (found["groups"], found["failed"]) == (6, 1)
    assert "GROUP_AUTHORIZATION_FAILED" in found["failures"]["g1"]
    with pytest.raises(GroupsFailedError, match="g1"):
        run(FindCoordinatorsOperator, fail_on_error=True)


def test_only_the_first_failures_go_to_xcom(admin: FakeAdmin) -> None:
    admin.groups = {f"g{i:03}": FakeGroup() for i in range(100)}
    admin.errors = {f"g{i:03}": broker_error("NOT_COORDINATOR") for i in range(1, 100)}
    found = run(FindCoordinatorsOperator)
    assert (found["failed"], len(found["failures"])) == (99, 20)


def test_the_task_fails_when_no_coordinator_at_all_is_found(admin: FakeAdmin) -> None:
    admin.errors = {name: broker_error("COORDINATOR_NOT_AVAILABLE") for name in admin.groups}
    with pytest.raises(GroupsFailedError, match="6 of 6"):
        run(FindCoordinatorsOperator)


def test_a_listing_that_misses_a_broker_fails_the_task_and_an_empty_one_does_not(admin: FakeAdmin) -> None:
    admin.groups = {}
    assert run(FindCoordinatorsOperator)["groups"] == 0
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    with pytest.raises(IncompleteListingError, match="broker 2"):
        run(FindCoordinatorsOperator)


def test_transactional_ids_have_coordinators_of_their_own(admin: FakeAdmin) -> None:
    assert run(FindCoordinatorsOperator, transactional_ids=["tx-1", "tx-2", "tx-1"]) == {
        "transactional_ids": 2,
        "brokers": {"1": {"address": "b1:9092", "transactional_ids": 2}},
        "failed": 0,
        "failures": {},
        "duplicates_removed": 1,
    }
    assert admin.key_types == [CoordinatorType.TRANSACTION]
