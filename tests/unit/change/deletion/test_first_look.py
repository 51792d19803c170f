"""What the first look of a deletion by name shows is in the journal before anything else happens."""

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion import ad_hoc
from airflow_kafka_groups.exceptions import BackupError, StorageError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.journal import RunJournal, read_history
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, Ticking
from tests.records import complete_history
from tests.unit.change.scene import LATER, delete_names, delete_plan, layout_in, planned

pytestmark = pytest.mark.safety


class Killed(BaseException):
    """What no handler of the package sees, like SIGKILL."""


@pytest.fixture
def admin() -> FakeAdmin:
    admin = FakeAdmin()
    for number, name in enumerate(("idle", "busy", "joining")):
        admin.add(name, ("t", 0, number))
    admin.groups["busy"].state, admin.groups["busy"].members = GroupState.STABLE, 1
    admin.groups["joining"].state = GroupState.PREPARING_REBALANCE
    return admin


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return layout_in(tmp_path)


NAMES = ["idle", "busy", "joining", "absent"]


async def no_sleep(_seconds: float) -> None:
    pass


async def kill(_seconds: float) -> None:
    raise Killed


def calm_down(admin: FakeAdmin) -> None:
    for name in ("busy", "joining"):
        admin.groups[name].state, admin.groups[name].members = GroupState.EMPTY, 0


def lives(history: DeletionHistory) -> dict[str, str]:
    return {life.group_id: life.code for life in history.lives().values()}


async def test_a_kill_during_the_watch_forgets_nobody(admin: FakeAdmin, layout: Layout) -> None:
    with pytest.raises(Killed):
        await delete_names(admin, layout, NAMES, sleep=kill)
    seen = {"busy": "has_members", "joining": "not_empty", "absent": "gone"}
    assert lives(read_history(layout, CLUSTER_ID)) == seen
    calm_down(admin)
    admin.add("absent", ("t", 0, 7))
    report = (await delete_names(admin, layout, NAMES, sleep=no_sleep, now=Ticking(LATER + timedelta(hours=1)))).report
    assert {item.group_id: item.code for item in report.outcomes} == {
        "idle": "safe",
        "busy": "alive_before",
        "joining": "alive_before",
        "absent": "alive_before",
    }
    assert admin.deleted == ["idle"]


async def test_a_plan_made_afterwards_counts_the_idle_time_from_there(admin: FakeAdmin, layout: Layout) -> None:
    with pytest.raises(Killed):
        await delete_names(admin, layout, NAMES, sleep=kill)
    calm_down(admin)
    plan = await planned(admin, layout)
    from airflow_kafka_groups.change.backup.make_backup import back_up_plan

    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    report = (await delete_plan(admin, layout, plan)).report
    assert {item.group_id: item.code for item in report.outcomes} == {
        "idle": "safe",
        "busy": "alive_before",
        "joining": "alive_before",
    }


@pytest.mark.parametrize("chunk", [1, 2])
async def test_each_part_of_a_long_look_is_recorded_before_the_next_is_read(
    admin: FakeAdmin, layout: Layout, chunk: int
) -> None:
    def kill_at_last(call: str) -> None:
        if call == "describe" and len(admin.asked("describe")) >= 2:
            raise Killed

    admin.before = kill_at_last
    with pytest.raises(Killed):
        await delete_names(admin, layout, ["busy", "joining", "idle"], sleep=no_sleep, chunk_size=chunk)
    assert lives(read_history(layout, CLUSTER_ID)) == {"busy": "has_members", "joining": "not_empty"}


async def test_so_does_a_backup_that_fails(admin: FakeAdmin, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BackupError("the disk is full")

    monkeypatch.setattr(ad_hoc, "back_up_plan", fail)
    with pytest.raises(BackupError):
        await delete_names(admin, layout, NAMES, sleep=no_sleep)
    assert "busy" in lives(read_history(layout, CLUSTER_ID))


async def test_where_it_cannot_be_recorded_nothing_is_deleted(
    admin: FakeAdmin, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(RunJournal, "conclude", fail)
    with pytest.raises(StorageError):
        await delete_names(admin, layout, NAMES, sleep=no_sleep)
    assert admin.asked("delete") == []


async def test_a_look_at_idle_groups_only_writes_nothing(layout: Layout) -> None:
    admin = FakeAdmin()
    admin.add("idle", ("t", 0, 1))
    with pytest.raises(Killed):
        await delete_names(admin, layout, ["idle"], sleep=kill)
    assert list(read_history(layout, CLUSTER_ID).runs) == []


async def test_the_look_is_a_run_that_deletes_nothing_and_the_deletion_follows(
    admin: FakeAdmin, layout: Layout
) -> None:
    result = await delete_names(admin, layout, NAMES, sleep=no_sleep)
    look, deletion = complete_history(layout.base, CLUSTER_ID).runs
    assert (look.begun["dry_run"], deletion.begun["dry_run"]) == (True, False)
    assert look.request_id == deletion.request_id
    assert look.ended is not None
    assert look.ended["counts"]["kept"] == 2
    assert look.possibly_deleted() == {}
    assert {item.group_id for item in result.report.outcomes} == set(NAMES), "the deletion has all of them"
