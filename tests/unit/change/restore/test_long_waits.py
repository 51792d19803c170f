"""How long a restore waits for a deletion: where a look at the journal, or a request, takes very long."""

import asyncio
import itertools
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.change.restore import change_offsets as recorded
from airflow_kafka_groups.change.restore import earlier_tries as in_flight
from airflow_kafka_groups.change.restore.change_offsets import RecordedChanges
from tests.unit.change.restore.test_in_flight import Killed, Scene, restore, scene_in
from tests.unit.change.scene import LATER, delete_plan

pytestmark = pytest.mark.safety


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return await scene_in(tmp_path, monkeypatch)


async def test_a_look_that_takes_longer_than_the_request_does_not_pass_over_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of days has thousands of entries, which an object store returns one by one."""
    admin, layout, plan = scene
    delete, look = admin.delete_consumer_groups, in_flight._about_to_be_deleted
    seen, over = threading.Event(), threading.Event()
    begun: list[asyncio.Task[RecordedChanges]] = []

    async def slow(*what: Any, **how: Any) -> Any:
        begun.append(asyncio.create_task(restore(admin, layout, plan.plan_id)))
        await asyncio.to_thread(seen.wait)
        answer = await delete(*what, **how)
        over.set()
        return answer

    def slow_look(*what: Any) -> dict[str, float]:
        found = look(*what)
        seen.set()
        over.wait()
        return found

    monkeypatch.setattr(admin, "delete_consumer_groups", slow)
    monkeypatch.setattr(in_flight, "_about_to_be_deleted", slow_look)
    seconds = itertools.count(0, 60)
    monkeypatch.setattr(in_flight, "clock", SimpleNamespace(now=lambda: next(seconds)))  # so long takes each look
    assert (await delete_plan(admin, layout, plan)).report.counts["deleted"] == 2
    (result,) = (await begun[0]).results
    assert (result.outcome, set(admin.groups)) == ("changed", {"a"}), "it is not kept as moved, and gone"


async def test_a_restore_waits_for_a_killed_run_only_as_long_as_its_request_may_still_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes are left of an hour: it does not wait for another hour."""
    admin, layout, plan = scene
    look, looks = in_flight._about_to_be_deleted, itertools.count()

    def counted(*what: Any) -> dict[str, float]:
        next(looks)
        return look(*what)

    def die(call: str) -> None:
        if call == "delete":
            raise Killed

    admin.before = die
    with pytest.raises(Killed):
        await delete_plan(admin, layout, plan, max_delete_seconds=3_585.0)
    admin.before = lambda _: None
    monkeypatch.setattr(recorded, "utc_now", lambda: LATER + timedelta(minutes=55))  # clocks differ by 5 at most
    seconds = itertools.count(0, 60)
    monkeypatch.setattr(in_flight, "clock", SimpleNamespace(now=lambda: next(seconds)))  # so long takes each look
    monkeypatch.setattr(in_flight, "_about_to_be_deleted", counted)
    (result,) = (await restore(admin, layout, plan.plan_id)).results
    assert (result.outcome, next(looks)) == ("unchanged", 12)
