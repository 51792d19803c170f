"""A restore beside a deletion: what it calls unchanged, or changed, is not deleted by a request that was on its way."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore import change_offsets as recorded
from airflow_kafka_groups.change.restore import earlier_tries as in_flight
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, RecordedChanges
from airflow_kafka_groups.exceptions import NotSentError, OutcomeUnknownError, StorageError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.journal import RunJournal, read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.storage.disk import Disk
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.records import entries
from tests.unit.change.scene import LATER, backed_up, delete_names, delete_plan, layout_in, restored

pytestmark = pytest.mark.safety

Scene = tuple[FakeAdmin, Layout, Any]
_LOOKS = 3
"""How often a restore looks for the request before brokers carry it out."""


class Killed(BaseException):
    """Ends the process at this point."""


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Make two groups, and a backed up plan to delete them; a restore takes place at its time."""
    monkeypatch.setattr(recorded, "utc_now", lambda: LATER + timedelta(seconds=30))
    monkeypatch.setattr(in_flight, "_POLL_SECONDS", 0.01)
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    for name in "ab":
        admin.add(name, ("t", 0, 5), protocol_type="")
    plan, _ = await backed_up(admin, layout)
    return admin, layout, plan


async def restore(admin: FakeAdmin, layout: Layout, plan_id: str) -> RecordedChanges:
    return await restored(admin, layout, plan_id, "a")


def each_look_takes(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    looks = itertools.count(0, seconds)
    monkeypatch.setattr(in_flight, "clock", SimpleNamespace(now=lambda: next(looks)))


async def kill_at_request(admin: FakeAdmin, layout: Layout, plan: Any, **how: Any) -> None:
    def die(call: str) -> None:
        if call == "delete":
            raise Killed

    admin.before = die
    with pytest.raises(Killed):
        await delete_plan(admin, layout, plan, **how)
    admin.before = lambda _: None


async def deleted_and_restored(scene: Scene, begun: list[asyncio.Task[RecordedChanges]], **how: Any) -> None:
    """Delete both groups; the restore that began meanwhile restores one, and calls none unchanged that is gone then."""
    admin, layout, plan = scene
    report = (await delete_plan(admin, layout, plan, **how)).report
    (result,) = (await begun[0]).results
    assert report.counts["deleted"] == 2
    assert (result.outcome, set(admin.groups)) == ("changed", {"a"})


def meanwhile(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], Any]) -> list[asyncio.Task[Any]]:
    """Begin a restore or the like when the request to delete has been sent; brokers carry that out when it was seen."""
    delete, begun = admin.delete_consumer_groups, list[asyncio.Task[Any]]()
    look, looks = in_flight._about_to_be_deleted, itertools.count(1)
    seen = threading.Event()

    def counted(*what: Any) -> dict[str, float]:
        if next(looks) > _LOOKS:
            seen.set()
        return look(*what)

    async def slow(*what: Any, **how: Any) -> Any:
        begun.append(asyncio.create_task(begin()))
        begun[0].add_done_callback(lambda _: seen.set())  # one that does not wait fails the test
        await asyncio.to_thread(seen.wait)
        return await delete(*what, **how)

    monkeypatch.setattr(in_flight, "_about_to_be_deleted", counted)
    monkeypatch.setattr(admin, "delete_consumer_groups", slow)
    return begun


def before_intent(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], number: int = 1) -> None:
    """Act right before the intent of this number is written."""
    intend, intents = RunJournal.intend, itertools.count(1)

    def after_it(journal: RunJournal, *what: Any, **how: Any) -> None:
        if next(intents) == number:
            act()
        intend(journal, *what, **how)

    monkeypatch.setattr(RunJournal, "intend", after_it)


@pytest.mark.promise(2)
async def test_a_group_that_a_request_on_its_way_deletes_is_restored_and_not_called_unchanged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = scene
    await deleted_and_restored(scene, meanwhile(admin, monkeypatch, lambda: restore(admin, layout, plan.plan_id)))
    assert admin.groups["a"].positions == {TopicPartition("t", 0): 5}


async def test_a_group_that_a_request_on_its_way_deletes_is_not_called_kept_alive(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = scene
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    terms, now = ChangeTerms(dry_run=False), LATER + timedelta(seconds=30)
    begun = meanwhile(admin, monkeypatch, lambda: keep_alive(admin, layout, request, terms, now=lambda: now))
    report = (await delete_plan(admin, layout, plan)).report
    (group,) = (await begun[0]).groups
    assert report.counts["deleted"] == 2
    assert (group.outcome, group.reason, set(admin.groups)) == ("left_alone", "it has no committed offsets", set())


async def test_a_request_that_may_take_longer_than_by_default_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in Python may have other limits than the operators: ``DeletionLimits(max_delete_seconds=120)``."""
    admin, layout, plan = scene
    begun = meanwhile(admin, monkeypatch, lambda: restore(admin, layout, plan.plan_id))
    each_look_takes(monkeypatch, 20)
    await deleted_and_restored(scene, begun, max_delete_seconds=120.0)


async def test_a_second_request_is_waited_for_though_the_first_one_s_outcome_is_recorded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was too late to leave, so the groups are read again, and a second intent follows."""
    admin, layout, plan = scene
    begun = meanwhile(admin, monkeypatch, lambda: restore(admin, layout, plan.plan_id))
    second, requests = admin.delete_consumer_groups, itertools.count(1)

    async def delete(ids: Any, *what: Any, **how: Any) -> Any:
        if next(requests) == 1:
            return GroupResults(GroupResult(id_, error=NotSentError("could not leave in time")) for id_ in ids)
        return await second(ids, *what, **how)

    monkeypatch.setattr(admin, "delete_consumer_groups", delete)
    await deleted_and_restored(scene, begun)
    assert next(requests) == 3


@pytest.mark.promise(2)
async def test_a_restore_that_is_recorded_right_before_the_intent_is_heeded_by_its_request(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion has looked for such records already, and the restore finds no intent."""
    admin, layout, plan = scene
    restored = list[RecordedChanges]()
    before_intent(monkeypatch, lambda: restored.append(asyncio.run(restore(admin, layout, plan.plan_id))))
    report = (await delete_plan(admin, layout, plan)).report
    (result,) = restored[0].results
    assert (result.outcome, set(admin.groups)) == ("unchanged", {"a"})
    assert (report.counts["deleted"], report.kept_reasons) == (1, {"excluded": 1})
    (run,) = read_history(layout, CLUSTER_ID).runs
    assert set(run.possibly_deleted()) == {"b"}, "nothing was sent for the other one"


async def test_a_group_that_is_restored_before_the_last_request_is_not_called_too_slow(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = scene
    before_intent(monkeypatch, lambda: asyncio.run(restore(admin, layout, plan.plan_id)), number=2)

    async def delete(ids: Any, *_: Any, **__: Any) -> Any:
        return GroupResults(GroupResult(id_, error=NotSentError("could not leave in time")) for id_ in ids)

    monkeypatch.setattr(admin, "delete_consumer_groups", delete)
    report = (await delete_plan(admin, layout, plan)).report
    assert {item.group_id: item.code for item in report.outcomes} == {"a": "excluded", "b": "too_slow"}


async def test_a_restore_fails_where_the_storage_cannot_say_whether_a_deletion_is_under_way(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = scene
    del admin.groups["a"]

    def busy(*_: Any) -> dict[str, float]:
        raise StorageError("503 Slow Down")

    monkeypatch.setattr(in_flight, "_about_to_be_deleted", busy)
    with pytest.raises(StorageError, match="503"):
        await restore(admin, layout, plan.plan_id)
    assert "alter" not in admin.call_names


@pytest.mark.parametrize("moment", ["watch", "intent"])
async def test_a_restore_while_a_deletion_by_name_watches_or_is_about_to_intend_is_heeded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    admin, layout, plan = scene
    await restore(admin, layout, plan.plan_id)  # before it was named: whoever named it knows
    restored = list[RecordedChanges]()

    async def watch(_: float) -> None:
        if moment == "watch":
            restored.append(await restore(admin, layout, plan.plan_id))

    if moment == "intent":
        before_intent(monkeypatch, lambda: restored.append(asyncio.run(restore(admin, layout, plan.plan_id))))
    report = (await delete_names(admin, layout, ["a", "b"], sleep=watch)).report
    (result,) = restored[0].results
    assert (result.outcome, set(admin.groups)) == ("unchanged", {"a"})
    assert (report.counts["deleted"], report.kept_reasons) == (1, {"excluded": 1})


async def test_a_group_that_was_restored_before_can_be_deleted_by_its_name_if_that_is_ignored(scene: Scene) -> None:
    admin, layout, plan = scene
    await restore(admin, layout, plan.plan_id)
    assert (await delete_names(admin, layout, ["a"], observe_seconds=0.01)).report.kept_reasons == {"excluded": 1}
    how = {"observe_seconds": 0.01, "ignore_signs_of_life": True}
    assert (await delete_names(admin, layout, ["a"], **how)).report.counts["deleted"] == 1


@pytest.mark.parametrize("age", [timedelta(hours=1), timedelta(seconds=20)], ids=["long ago", "just now"])
async def test_the_intent_of_a_killed_run_is_waited_for_no_longer_than_its_request_can_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, age: timedelta
) -> None:
    admin, layout, plan = scene
    each_look_takes(monkeypatch, 20)
    await kill_at_request(admin, layout, plan)
    monkeypatch.setattr(recorded, "utc_now", lambda: LATER + age)
    (result,) = (await restore(admin, layout, plan.plan_id)).results
    assert result.outcome == "unchanged"
    assert ("waiting until it is over" in caplog.text) is (age < timedelta(minutes=1))


async def test_a_restore_goes_on_where_the_journal_cannot_be_read(scene: Scene, tmp_path: Path) -> None:
    admin, layout, plan = scene
    await delete_plan(admin, layout, plan)
    entries(tmp_path, "begun")[0].write_text("{")
    (result,) = (await restore(admin, layout, plan.plan_id)).results
    assert (result.outcome, set(admin.groups)) == ("changed", {"a"})


async def test_a_restore_that_cannot_be_logged_sends_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion by a plan that was made before would not spare the group."""
    admin, layout, plan = scene
    del admin.groups["a"]

    def full(*_: Any) -> None:
        raise StorageError("the storage is full")

    monkeypatch.setattr(ClusterLog, "create", full)
    with pytest.raises(StorageError, match="the storage is full"):
        await restore(admin, layout, plan.plan_id)
    assert "alter" not in admin.call_names


async def test_what_a_restore_committed_is_in_the_log_by_then(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, layout, plan = scene
    del admin.groups["a"]
    alter, known = admin.alter_consumer_group_offsets, list[set[str]]()

    async def noted(*what: Any, **how: Any) -> Any:
        known.append(set(Ledger(layout, CLUSTER_ID).wanted("restore")))
        return await alter(*what, **how)

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", noted)
    assert (await restore(admin, layout, plan.plan_id)).counts["changed"] == 1
    assert known == [{"a"}]


async def test_a_result_that_reads_back_differently_does_not_hide_that_the_restore_was_made(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = scene
    write = Disk.replace

    def damage(disk: Disk, path: Path, parts: Any) -> bool:
        return write(disk, path, parts) and not path.name.endswith("-result.json")

    monkeypatch.setattr(Disk, "replace", damage)
    del admin.groups["a"]
    with pytest.raises(OutcomeUnknownError, match=r"differs from what was written.*was made before \(changed 1\)"):
        await restore(admin, layout, plan.plan_id)
    assert "a" in admin.groups


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
    each_look_takes(monkeypatch, 60)
    await deleted_and_restored(scene, begun)


async def test_a_restore_waits_for_a_killed_run_only_as_long_as_its_request_may_still_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes are left of an hour: it does not wait for another hour."""
    admin, layout, plan = scene
    look, looks = in_flight._about_to_be_deleted, itertools.count()

    def counted(*what: Any) -> dict[str, float]:
        next(looks)
        return look(*what)

    await kill_at_request(admin, layout, plan, max_delete_seconds=3_585.0)
    monkeypatch.setattr(recorded, "utc_now", lambda: LATER + timedelta(minutes=55))  # clocks differ by 5 at most
    each_look_takes(monkeypatch, 60)
    monkeypatch.setattr(in_flight, "_about_to_be_deleted", counted)
    (result,) = (await restore(admin, layout, plan.plan_id)).results
    assert (result.outcome, next(looks)) == ("unchanged", 12)
