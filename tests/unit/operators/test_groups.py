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
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.operators import groups as module
from airflow_kafka_groups.operators.groups import ChunkGroupsOperator, DescribeGroupsOperator, ListGroupsOperator
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
    assert found["groups"][0] == {
        "group_id": "g0",
        "state": "Empty",
        "type": "classic",
        "protocol_type": "consumer",
        "coordinator": 1,
    }
    assert run(ListGroupsOperator, include=["g*"], exclude=["g0"])["count"] == 4
    assert run(ListGroupsOperator, states=["stable"])["count"] == 1
    assert run(ListGroupsOperator, types='["classic"]')["count"] == 5


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
