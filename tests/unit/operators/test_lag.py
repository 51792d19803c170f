"""The lag of named groups: an empty answer is not "no lag"."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error


def test_a_named_group_without_a_commit_has_no_lag_of_zero(admin: FakeAdmin) -> None:
    admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 10}), "new": FakeGroup({})}
    admin.errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    found = ListGroupLagOperator(task_id="t", group_ids=["orders", "ordres", "secret", "new"]).execute({})
    assert set(found["unknown_groups"]) == {"ordres", "secret", "new"}
    assert "does not exist" in found["unknown_groups"]["ordres"]
    assert (found["groups"], found["unknown"], found["total_lag"]) == (4, 3, 0)


def test_of_all_groups_those_without_a_commit_are_not_reported(admin: FakeAdmin) -> None:
    admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 8}), "new": FakeGroup({})}
    found = ListGroupLagOperator(task_id="t").execute({})
    assert (found["lagging_groups"], found["unknown"]) == ({"orders": 2}, 0)


@pytest.mark.parametrize("sees_all", [True, False])
def test_topics_that_are_hidden_from_the_user_are_said_to_be_missing(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], sees_all: bool
) -> None:
    """Their offsets are in no answer, so a group that reads nothing else has a lag of 0: an alert would never come."""
    admin.groups = {"orders": FakeGroup({})}
    admin.sees_topics = sees_all
    ListGroupLagOperator(task_id="t").execute({})
    assert ("Allow Describe on all topics" in capsys.readouterr().out) is not sees_all


def test_a_lag_that_was_measured_is_not_lost_where_the_last_question_is_not_answered(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost() -> bool:
        raise ConnectionFailedError("b1:9092", "refused")

    admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 8})}
    monkeypatch.setattr(admin, "sees_all_topics", lost)
    assert ListGroupLagOperator(task_id="t").execute({})["lagging_groups"] == {"orders": 2}
    assert "is not known: b1:9092" in capsys.readouterr().out


def test_records_that_retention_removed_are_no_lag_and_are_counted_apart(admin: FakeAdmin) -> None:
    """They were lag in the task and ``lost`` in the shell: a dead group grew worse for ever."""
    admin.groups = {"dead": FakeGroup({TopicPartition("t", 0): 2})}
    admin.log = (10, 10)
    found = ListGroupLagOperator(task_id="t").execute({})
    assert (found["total_lag"], found["total_lost"], found["lagging_groups"]) == (0, 8, {})
