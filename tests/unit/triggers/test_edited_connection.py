"""A connection that is deleted, or made invalid, while sensors wait: what they say, and that a retry may help."""

from __future__ import annotations

import asyncio
import os

import pytest

from airflow_kafka_groups.triggers import clients
from airflow_kafka_groups.triggers.conditions import GroupsGone
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.triggers.test_poll import _hurried, fire, trigger, until

__all__ = ["_hurried"]
CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    ("edited", "said"),
    [
        (None, "there is no such connection. Create it"),
        ('{"conn_type": "kafka_groups", "extra": {"reed_only": 1}}', "reed_only"),
    ],
)
async def test_a_retry_may_help_where_a_connection_was_there_when_the_wait_began(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, edited: str | None, said: str
) -> None:
    """Airflow's command line edits one by deleting it and adding it again: sensors failed, and none was retried."""
    monkeypatch.setattr(clients, "READ_AGAIN_SECONDS", 0.0)
    before = os.environ[CONNECTION]
    admin.groups = {"a": FakeGroup()}
    gone = GroupsGone(group_ids=("a",))
    waiting = [asyncio.create_task(fire(trigger(gone))) for _ in range(2)]
    await until(lambda: len(admin.calls) > 8)
    monkeypatch.delenv(CONNECTION) if edited is None else monkeypatch.setenv(CONNECTION, edited)
    for task in waiting:
        event = await asyncio.wait_for(task, 10)
        assert (event["status"], event["final"], said in event["message"]) == ("failed", False, True)
    assert (await fire(trigger(gone)))["final"] is True, "it was not there when this wait began"
    monkeypatch.setenv(CONNECTION, before)
    admin.groups = {}
    assert (await fire(trigger(gone)))["status"] == "reached"
