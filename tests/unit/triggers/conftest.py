"""What the tests of triggers do with one: run it quickly, and wait for its events."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_kafka_groups.triggers import poll
from airflow_kafka_groups.triggers.clients import condition_to_json
from airflow_kafka_groups.triggers.events import GroupsEventTrigger
from airflow_kafka_groups.triggers.poll import ConditionTrigger
from tests.unit.operators.conftest import admin, leases

__all__ = ["admin", "leases"]


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "wait_before_poll", lambda *_, **__: 0.01)


def wait_for(condition: Any, **arguments: Any) -> ConditionTrigger:
    """Return the trigger of a condition."""
    return ConditionTrigger(
        kafka_groups_conn_id="kafka_groups_default", condition=condition_to_json(condition), **arguments
    )


async def fire(one: BaseTrigger) -> dict[str, Any]:
    """Return the payload of a trigger's only event."""
    (event,) = [event async for event in one.run()]
    payload: dict[str, Any] = event.payload
    assert json.loads(json.dumps(payload)) == payload
    return payload


async def payloads(
    one: GroupsEventTrigger, monkeypatch: pytest.MonkeyPatch, script: list[Callable[[], object]], most: int = 99
) -> list[dict[str, Any]]:
    """Return the payloads of the first events of a watch.

    :param script: what happens before each poll but the first. At its end, the watch ends.
    """

    class OverError(Exception):
        pass

    async def happen(_seconds: float) -> None:
        if not script:
            raise OverError
        script.pop(0)()

    monkeypatch.setattr("airflow_kafka_groups.triggers.events.asyncio.sleep", happen)
    stream: Any = one.run()
    found: list[dict[str, Any]] = []
    try:
        while len(found) < most:
            found.append((await anext(stream)).payload)
    except OverError:
        pass
    await stream.aclose()
    assert json.loads(json.dumps(found)) == found
    return found
