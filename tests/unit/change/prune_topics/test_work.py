"""How topics are read and deleted: only who described their group is asked to delete them."""

from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion import delete_requests
from tests.fakes.lease import ScriptedLease
from tests.unit.change.prune_topics.scene import SAVED, cluster, layout_in, old_offsets, outcomes, planned

pytestmark = pytest.mark.safety


@pytest.mark.promise(1)
async def test_a_group_that_moves_to_another_broker_after_its_reading_is_not_pruned_there(tmp_path: Path) -> None:
    """What was read may be what a broker knew that had been replaced: the new coordinator knows what happened since."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await planned(admin, layout)

    def move(call: str) -> None:
        if call == "delete offsets":
            admin.groups["app"].coordinator = 2

    admin.before = move
    # Brokers answer so, too, when a coordinator is replaced that has just written: the verification decides.
    assert await outcomes(admin, layout, of) == {"app [old]": "failed:still_there"}
    assert old_offsets(admin) == SAVED
    assert admin.coordinators == [{"app": 1}]


async def test_all_topics_of_a_group_are_deleted_by_the_broker_that_described_it(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.groups["app"].coordinator = 2
    of = await planned(admin, layout)
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}
    assert admin.coordinators == [{"app": 2}]


@pytest.mark.promise(11)
async def test_a_worker_that_is_paused_between_two_topics_does_not_send_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_requests, "_AT_ONCE", 1)
    admin, layout, lease = cluster(), layout_in(tmp_path), ScriptedLease()
    admin.commit("app", "older", 0, 1)
    of = await planned(admin, layout)
    assert len(of.groups) == 2

    def pause(call: str) -> None:
        lease.paused |= call == "delete offsets"

    admin.before = pause
    assert set((await outcomes(admin, layout, of, lease=lease)).values()) == {"deleted:safe", "kept:too_slow"}
    assert len(admin.coordinators) == 1
