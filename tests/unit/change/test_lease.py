"""A run that has lost its lease deletes no more, says so of every group that is left, and half tells nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_kafka_groups.change import lease as lease_module
from airflow_kafka_groups.change.lease import LeaseGuard, deletion_lease
from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, DeadlineExceededError, NotSentError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID as GROUP_ID
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.file_storage import FILES
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.fakes.lease import WHY, ScriptedLease
from tests.unit.change.deletion.steps import fates
from tests.unit.change.scene import backed_up, delete_names, delete_plan, layout_in

NAMES = ("a", "b", "c", "d")
CONFIG = ClientConfig(bootstrap_servers=(("b", 1),))


class Scene:
    """Four planned groups, deleted two at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.admin = FakeAdmin()
        for number, name in enumerate(NAMES):
            self.admin.add(name, ("t", 0, number))
        self.lease = ScriptedLease()

    async def delete(self, *, dry_run: bool = False) -> DeletionReport:
        layout = layout_in(self.folder)
        plan, _ = await backed_up(self.admin, layout)
        self.admin.calls.clear()
        result = await delete_plan(self.admin, layout, plan, dry_run=dry_run, chunk_size=2, lease=self.lease)
        self.record = json.loads(FILES.read(result.record) or b"")
        return result.report

    def on(self, call: str, count: int, then: Any) -> None:
        """Run a function at the n-th call."""
        seen = [0]

        def before(name: str) -> None:
            seen[0] += name == call
            if name == call and seen[0] == count:
                then()

        self.admin.before = before


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


DELETED, KEPT = "deleted:safe", "kept:lease_lost"


async def test_a_lease_that_is_held_is_recorded_and_changes_nothing(scene: Scene) -> None:
    scene.on("delete", 1, lambda: setattr(scene.lease, "generation", 9))
    report = await scene.delete()
    assert set(fates(report).values()) == {DELETED}
    assert scene.lease.confirmed == 4, "before each chunk is read, and before its intent"
    assert scene.record["lease"] == {
        "group_id": GROUP_ID,
        "owner": "me",
        "member_id": "m1",
        "generations": [7, 9],
        "lost": None,
    }
    assert report.summary()["lease"] == scene.record["lease"]


@pytest.mark.safety
async def test_no_request_may_leave_later_than_the_lease_is_certain_for(scene: Scene) -> None:
    """The event loop may be held up after the last check: then nobody is there to cancel what is under way."""
    scene.lease.seconds = 4.0
    scene.on("delete", 1, lambda: setattr(scene.lease, "seconds", 60.0))
    assert set(fates(await scene.delete()).values()) == {DELETED}
    first, second = scene.admin.send_within
    assert first == 4.0 - lease_module.MARGIN_SECONDS
    assert second is not None
    assert 14.0 < second <= 15.0, "the age of the reading where that is less"


@pytest.mark.promise(11)
async def test_lost_between_two_chunks_the_second_is_kept_though_it_was_read(scene: Scene) -> None:
    def lose_after(group_id: str) -> None:
        if len(scene.admin.deleted) == 2:
            scene.lease.lose()

    scene.admin.after_delete = lose_after
    report = await scene.delete()
    found = fates(report)
    assert sorted(found.values()) == [DELETED, DELETED, KEPT, KEPT]
    assert len(scene.admin.groups) == 2
    (warning,) = report.warnings
    assert WHY in warning
    assert report.lease is not None
    assert report.lease.lost == WHY
    left = [item for item in report.outcomes if item.code == "lease_lost"]
    assert all(WHY in item.reason for item in left)
    assert scene.admin.asked("stable offsets") == [item.group_id for item in report.outcomes], "read ahead"
    assert scene.admin.asked("delete") == [item.group_id for item in report.outcomes[:2]]


async def test_lost_while_a_chunk_is_read_nothing_of_it_is_sent(scene: Scene) -> None:
    layout = layout_in(scene.folder)
    plan, _ = await backed_up(scene.admin, layout)
    scene.on("stable offsets", 1, scene.lease.lose)
    report = (await delete_plan(scene.admin, layout, plan, chunk_size=2, lease=scene.lease)).report
    assert set(fates(report).values()) == {KEPT}
    assert scene.admin.asked("delete") == []


@pytest.mark.promise(11)
async def test_a_worker_that_was_paused_with_all_of_its_clocks_after_the_intent_sends_nothing(scene: Scene) -> None:
    """By each of its clocks the reading is young and the lease held: only the coordinator's answer says otherwise."""
    scene.on("delete", 1, lambda: setattr(scene.lease, "paused", True))
    report = await scene.delete()
    assert set(fates(report).values()) == {KEPT}
    assert set(scene.admin.groups) == set(NAMES)
    assert scene.lease.proved == 1


async def test_without_an_answer_to_the_heartbeat_in_time_the_chunk_is_read_once_more(scene: Scene) -> None:
    proved = []

    async def silent(within: float) -> None:
        proved.append(within)
        raise NotSentError("no answer")

    scene.lease.prove = silent  # type: ignore[method-assign]
    report = await scene.delete()
    assert set(fates(report).values()) == {"kept:too_slow"}
    assert len(proved) == 4, "each of two chunks twice"
    assert all(14 < within <= 15 for within in proved), "as long as the reading is young"


async def test_lost_while_a_request_is_under_way_it_is_given_up_and_its_groups_may_be_gone(scene: Scene) -> None:
    begun = asyncio.Event()
    scene.lease.seconds = 1.1

    async def hangs(*_: Any, **how: Any) -> GroupResults[None]:
        await how["before_sending"]()
        begun.set()
        scene.lease.seconds = 0.05
        asyncio.get_running_loop().call_later(0.02, scene.lease.lose)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    scene.admin.delete_consumer_groups = hangs  # type: ignore[method-assign]
    async with asyncio.timeout(30):
        report = await scene.delete()
    assert begun.is_set()
    assert sorted(fates(report).values(), reverse=True) == [KEPT, KEPT, "failed:still_there", "failed:still_there"]
    history = read_history(layout_in(scene.folder), CLUSTER_ID)
    assert len(history.deletions()) == 2, "both may have been deleted for all that is known"
    assert report.lease is not None
    assert report.lease.lost == WHY


async def test_a_moments_doubt_is_waited_for(scene: Scene) -> None:
    scene.lease.doubts = 1
    scene.lease.lose()
    assert set(fates(await scene.delete()).values()) == {DELETED}


async def test_once_lost_it_stays_lost_for_this_run(scene: Scene) -> None:
    guard = LeaseGuard(cast("MaintenanceLease", scene.lease))
    scene.lease.lose()
    assert await guard.why_lost() == WHY
    scene.lease.seconds = 5.0
    assert await guard.why_lost() == WHY, "another may have begun meanwhile"


async def test_a_lease_that_was_lost_and_came_back_is_another_one(scene: Scene) -> None:
    scene.on("delete", 1, lambda: setattr(scene.lease, "term", 2))
    report = await scene.delete()
    found = list(fates(report).values())
    assert found[2:] == [KEPT, KEPT]
    assert report.lease is not None
    assert "another may have had it" in (report.lease.lost or "")


async def test_the_lease_of_another_cluster_admits_nobody(scene: Scene) -> None:
    """Bootstrap servers of two clusters: the run's client and that of its lease may each get to another one."""
    scene.lease.kafka_cluster_id = "another-cluster"
    with pytest.raises(ConfigurationError, match=r"'another-cluster'.*nothing was deleted"):
        await scene.delete()
    layout = layout_in(scene.folder)
    with pytest.raises(ConfigurationError, match=r"'another-cluster'.*nothing was deleted"):
        await delete_names(scene.admin, layout, NAMES, observe_seconds=0.001, lease=scene.lease)
    assert scene.admin.asked("delete") == []


async def test_a_dry_run_needs_no_lease(scene: Scene) -> None:
    scene.lease.lose()
    report = await scene.delete(dry_run=True)
    assert set(fates(report).values()) == {"would_delete:safe"}
    assert report.lease is None
    assert scene.lease.confirmed == 0


async def test_named_groups_are_held_to_it_too(scene: Scene) -> None:
    scene.lease.lose()
    layout = layout_in(scene.folder)
    report = (await delete_names(scene.admin, layout, NAMES, observe_seconds=0.001, lease=scene.lease)).report
    assert set(fates(report).values()) == {KEPT}
    assert scene.admin.asked("delete") == []
    assert report.lease is not None


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """Let acquiring raise what a test puts here; ``None`` never answers."""
    raised: list[Exception | None] = []

    async def acquire(self: MaintenanceLease, timeout: float) -> None:
        if raised[0] is None:
            await asyncio.Event().wait()
        raise raised[0] or AssertionError

    monkeypatch.setattr(MaintenanceLease, "acquire", acquire)
    return raised


async def enter(**arguments: Any) -> AsyncIterator[LeaseGuard]:
    fields = {"group_id": GROUP_ID, "owner": "me", "wait_seconds": 0.0, **arguments}
    async with deletion_lease(CONFIG, **fields):
        raise AssertionError("entered")
    yield


async def test_a_user_who_may_not_join_is_told_the_acl_and_the_switch(refusal: list[Exception | None]) -> None:
    refusal.append(BrokerError(30, "GROUP_AUTHORIZATION_FAILED", "no", api="JoinGroup"))
    with pytest.raises(ConfigurationError, match=f"--operation Read --group {GROUP_ID}.*lease_group_prefix.*lease=Fa"):
        await anext(enter())
    refusal[0] = BrokerError(26, "INVALID_SESSION_TIMEOUT", "no", api="JoinGroup")
    with pytest.raises(BrokerError, match="INVALID_SESSION"):
        await anext(enter())


async def test_a_group_that_never_answers_is_not_waited_for_for_ever(
    refusal: list[Exception | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal.append(None)
    monkeypatch.setattr(lease_module, "JOIN_SECONDS", 0.01)
    with pytest.raises(DeadlineExceededError, match="nothing was deleted"):
        await anext(enter())


@pytest.mark.parametrize("seconds", [-1, "soon", float("nan"), True])
async def test_a_wait_that_makes_no_sense_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="lease_wait_seconds"):
        await anext(enter(wait_seconds=seconds))


# The lease's own group is nobody's to delete


def test_the_groups_name_is_the_one_that_is_protected() -> None:
    assert LEASE_GROUP_ID == GROUP_ID


@pytest.mark.parametrize("group_id", [GROUP_ID, f"team-a.{GROUP_ID}"])
async def test_no_policy_gives_the_leases_group_away(group_id: str, tmp_path: Path) -> None:
    groups: GroupFilter = PlanPolicy(protected=(), include=(group_id,)).groups
    assert "protected" in (groups.why_not(group_id) or "")
    admin = FakeAdmin()
    admin.add(group_id, ("t", 0, 1))
    how: dict[str, Any] = {"observe_seconds": 0.001, "protected": ()}
    report = (await delete_names(admin, layout_in(tmp_path), [group_id], **how)).report
    assert fates(report) == {group_id: "kept:protected"}
    assert group_id in admin.groups
