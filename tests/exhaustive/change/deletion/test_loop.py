"""One chunk is read ahead: what is written and sent stays in one line, and no guard is asked too early."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.request import DeletionObserver
from airflow_kafka_groups.exceptions import JournalError, StorageError
from airflow_kafka_groups.ledger.journal import RunJournal, read_history
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.storage.disk import DISK, Disk
from tests.exhaustive.change.deletion.test_second_accidents import Killed, cluster
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, timeout
from tests.unit.change.deletion.steps import fates
from tests.unit.change.scene import backed_up, delete_names, delete_plan, layout_in

pytestmark = pytest.mark.safety

FIRST, SECOND, THIRD = "c", "b", "a"
"""The groups in the order of the plan, longest idle first."""


class Scene:
    """Three groups, deleted one at a time.

    :ivar lines: what was read, written and sent, in order.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layout = layout_in(folder)
        self.admin = FakeAdmin()
        for number, name in enumerate((THIRD, SECOND, FIRST)):
            self.admin.add(name, ("t", 0, number))
        self.lines: list[str] = []
        self.clock = 0.0
        self.on_begin: Callable[[], None] = lambda: None
        self.on_delete: Callable[[list[str]], None] = lambda group_ids: None
        self._patch = monkeypatch

    async def delete(self, **how: Any) -> DeletionReport:
        plan, _ = await backed_up(self.admin, self.layout)
        assert plan.group_ids == [FIRST, SECOND, THIRD]
        for name in ("describe_consumer_groups", "delete_consumer_groups"):
            self._patch.setattr(self.admin, name, self._noted(name.partition("_")[0], getattr(self.admin, name)))
        for name in ("intend", "conclude"):
            self._patch.setattr(RunJournal, name, self._written(name, getattr(RunJournal, name)))
        self.on_begin()
        how = {"chunk_size": 1, "monotonic": lambda: self.clock, **how}
        return (await delete_plan(self.admin, self.layout, plan, **how)).report

    def _noted(self, name: str, call: Any) -> Any:
        async def noted(group_ids: list[str], **how: Any) -> Any:
            self.lines.append(f"{name} {' '.join(group_ids)}")
            if name == "delete":
                self.on_delete(group_ids)
            return await call(group_ids, **how)

        return noted

    def _written(self, name: str, write: Any) -> Any:
        def written(journal: RunJournal, groups: Any, *arguments: Any, **more: Any) -> None:
            write(journal, groups, *arguments, **more)
            self.lines.append(f"{name} {' '.join(getattr(item, 'group_id', item) for item in groups)}")

        return written


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


async def test_intents_requests_and_outcomes_are_in_one_line_while_the_next_chunk_is_read(scene: Scene) -> None:
    assert set(fates(await scene.delete()).values()) == {"deleted:safe"}
    written = [line for line in scene.lines if not line.startswith("describe")]
    assert written == [f"{step} {name}" for name in (FIRST, SECOND, THIRD) for step in ("intend", "delete", "conclude")]
    place = scene.lines.index
    assert place(f"describe {SECOND}") < place(f"delete {FIRST}"), "read ahead"
    assert place(f"conclude {FIRST}") < place(f"describe {THIRD}"), "by one chunk only"


async def test_what_was_read_ahead_and_grew_old_is_read_again(scene: Scene) -> None:
    def slow(group_ids: list[str]) -> None:
        scene.clock += 16.0 if group_ids == [FIRST] else 0.0

    scene.on_delete = slow
    assert set(fates(await scene.delete()).values()) == {"deleted:safe"}
    assert scene.lines.count(f"describe {SECOND}") == 2
    assert scene.lines.index(f"delete {FIRST}") < scene.lines.index(f"intend {SECOND}")
    assert scene.admin.send_within[1] == 15.0, "by the second reading"


async def test_life_that_only_the_first_of_two_readings_saw_keeps_the_group(scene: Scene) -> None:
    """A member was there when the chunk was read ahead, and has left when the chunk is read again."""

    def leave(group_ids: list[str]) -> None:
        scene.clock += 16.0
        scene.admin.groups[SECOND].members = 0

    scene.on_begin = lambda: setattr(scene.admin.groups[SECOND], "members", 1)
    scene.on_delete = leave
    report = await scene.delete()
    assert fates(report)[SECOND] == "kept:has_members"
    assert SECOND in scene.admin.groups
    assert set(read_history(scene.layout, CLUSTER_ID).lives()) == {SECOND}


async def test_what_was_read_ahead_is_recorded_though_the_run_stops_before_it(scene: Scene) -> None:
    def fails(group_ids: list[str]) -> None:
        raise timeout()

    scene.on_begin = lambda: setattr(scene.admin.groups[SECOND], "members", 1)
    scene.on_delete = fails
    report = await scene.delete()
    assert fates(report)[SECOND] == "kept:has_members", "what was found is the better reason"
    assert fates(report)[THIRD] == "kept:stopped"
    assert f"conclude {SECOND}" in scene.lines
    assert f"describe {THIRD}" not in scene.lines


async def test_a_reading_ahead_that_fails_ends_the_run_when_it_is_its_turn(scene: Scene) -> None:
    def fails(call: str) -> None:
        if call == "stable offsets" and f"describe {SECOND}" in scene.lines:
            raise timeout()

    scene.on_begin = lambda: setattr(scene.admin, "before", fails)
    report = await scene.delete()
    assert fates(report)[FIRST] == "deleted:safe"
    assert fates(report)[SECOND] == "kept:unreadable"
    assert fates(report)[THIRD] == "kept:stopped"


async def test_who_asks_to_stop_is_heard_before_the_next_intent(scene: Scene) -> None:
    def why_stop() -> str | None:
        return "an operator says so" if f"delete {FIRST}" in scene.lines else None

    report = await scene.delete(observer=DeletionObserver(why_stop=why_stop))
    assert fates(report) == {FIRST: "deleted:safe", SECOND: "kept:stopped", THIRD: "kept:stopped"}
    assert f"describe {SECOND}" in scene.lines, "it was read before somebody asked"
    assert f"intend {SECOND}" not in scene.lines
    assert f"describe {THIRD}" not in scene.lines


@pytest.mark.parametrize("write", ["intend", "conclude"])
async def test_nothing_is_sent_after_a_failed_entry_of_the_journal(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StorageError("no space left on device")

    monkeypatch.setattr(RunJournal, write, full)
    report = await scene.delete()
    sent = [line for line in scene.lines if line.startswith("delete")]
    assert sent == ([] if write == "intend" else [f"delete {FIRST}"])
    assert fates(report)[SECOND] == fates(report)[THIRD] == "kept:stopped"


async def test_an_interruption_ends_the_reading_ahead_too(scene: Scene) -> None:
    def interrupt(group_ids: list[str]) -> None:
        raise KeyError("a defect")

    scene.on_delete = interrupt
    with pytest.raises(KeyError):
        await scene.delete()
    assert f"describe {THIRD}" not in scene.lines


class Storage:
    """A storage that fails at the n-th file that is created, before or after the file is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int, error: BaseException, *, written: bool) -> None:
        self._create = DISK.create
        self._fails_at, self._error, self._written = fails_at, error, written
        self.created = 0
        monkeypatch.setattr(Disk, "create", lambda _, path, data, **how: self.create(path, data))

    def create(self, path: Path, data: bytes) -> None:
        self.created += 1
        if self.created != self._fails_at:
            self._create(path, data)
            return
        if self._written:
            self._create(path, data)
        raise self._error


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("error", [Killed(), RuntimeError("an SDK's own"), OSError("no space left"), ValueError("x")])
@pytest.mark.parametrize("fails_at", range(1, 8))
async def test_whatever_the_storage_does_no_group_is_deleted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, error: BaseException, written: bool
) -> None:
    """Begun, two chunks of intent and outcome, the end: one of them fails, all is restored, and the task is cleared."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, backup = await backed_up(admin, layout)
    with monkeypatch.context() as patch:
        storage = Storage(patch, fails_at, error, written=written)
        with suppress(Killed, StorageError, JournalError):
            await delete_plan(admin, layout, plan, chunk_size=1)
    assert storage.created >= min(fails_at, 6)
    before = list(admin.deleted)
    assert set(before) <= set(read_history(layout, CLUSTER_ID).deletions()), "whatever is gone is known"
    assert set(before) <= set(backup.entries)
    admin.groups |= {name: FakeGroup() for name in before}
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert len(admin.deleted) == len(set(admin.deleted)), "each once"
    assert {fates(report)[name] for name in before} <= {"kept:deleted_before"}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("fails_at", range(1, 10))
async def test_a_task_that_names_groups_deletes_none_twice_whatever_the_storage_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, written: bool
) -> None:
    """Plan and backup, two files each, begun, intent, outcome and end: the process may die after each of them."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    with monkeypatch.context() as patch, suppress(Killed):
        Storage(patch, fails_at, Killed(), written=written)
        await delete_names(admin, layout, ["a", "b"], observe_seconds=0.01)
    before = list(admin.deleted)
    admin.groups |= {name: FakeGroup() for name in before}
    report = (await delete_names(admin, layout, ["a", "b"], observe_seconds=0.01)).report
    assert len(admin.deleted) == len(set(admin.deleted)), "each once"
    assert {fates(report)[name] for name in before} <= {"kept:deleted_before"}
