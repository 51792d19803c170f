"""A storage that fails at any file, and a process that dies there: no group is deleted twice."""

from contextlib import suppress
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError, StorageError
from airflow_kafka_groups.ledger.journal.journal import read_history
from airflow_kafka_groups.storage.disk import DISK, Disk
from tests.exhaustive.change.deletion.test_second_accidents import Killed, cluster
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.unit.change.deletion.steps import fates
from tests.unit.change.scene import backed_up, delete_names, delete_plan, layout_in

pytestmark = pytest.mark.safety


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
