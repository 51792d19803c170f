"""Pruning: what is deleted, what each answer means, what refuses the run, and who is asked to delete a topic."""

import asyncio
import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion import chunk_loop
from airflow_kafka_groups.change.deletion.run import DeletionResult
from airflow_kafka_groups.exceptions import (
    BackupError,
    IncompleteListingError,
    OutcomeUnknownError,
    PartitionsFailedError,
    PlanError,
)
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.journal import Journal, read_history
from airflow_kafka_groups.ledger.ledger import fold_snapshots
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking, broker_error, timeout
from tests.fakes.lease import ScriptedLease
from tests.records import history_before
from tests.unit.change.prune_topics.scene import (
    HOUR,
    OLD,
    SAVED,
    cluster,
    fates,
    kept,
    layout_in,
    old_offsets,
    outcomes,
    plan,
    planned,
    prune,
    ready,
    snapshots,
    watched,
)

pytestmark = pytest.mark.safety


async def test_exactly_the_planned_offsets_are_deleted_recorded_and_verified(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    result = await prune(admin, layout, of)
    assert fates(result) == {"app [old]": "deleted:safe"}
    assert (old_offsets(admin), len(admin.groups["app"].offsets), admin.deleted) == ({}, 2, [])
    assert result.verification is not None
    assert result.verification.gone == ("app [old]",)
    calls = [call for call in admin.call_names if call in ("stable offsets", "describe", "delete offsets")]
    backup, *reading, deletion, looked, again = calls[-6:]
    both = {"describe", "stable offsets"}
    assert (backup, set(reading), deletion, {looked, again}) == ("stable offsets", both, "delete offsets", both)
    record = json.loads(result.record.read_bytes())
    assert (record["what"], record["plan_id"], record["counts"]["deleted"]) == ("prune-topics", of.plan_id, 1)
    assert record["outcomes"]["groups"] == ["app [old]"]
    assert record["outcomes"]["intended"] != [None]
    assert record["backup"] is not None


async def test_a_dry_run_deletes_nothing_and_backs_nothing_up(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    result = await prune(admin, layout, of, dry_run=True)
    assert fates(result) == {"app [old]": "would_delete:safe"}
    assert (old_offsets(admin), layout.backup_manifest(of.plan_id).exists()) == (SAVED, False)
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}, "it does not count as deleted"


async def test_a_topic_that_is_deleted_meanwhile_is_gone(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    for where in OLD:
        admin.ends[where] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    assert await outcomes(admin, layout, of) == {"app [old]": "gone:gone"}


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (broker_error("GROUP_AUTHORIZATION_FAILED"), "failed:group_authorization_failed"),
        (broker_error("NOT_COORDINATOR"), "failed:still_there"),
        (OutcomeUnknownError("lost"), "failed:still_there"),
        (PartitionsFailedError("app", {OLD[0]: broker_error("TOPIC_AUTHORIZATION_FAILED")}), "unknown:partly_deleted"),
        (
            PartitionsFailedError("app", dict.fromkeys(OLD, broker_error("TOPIC_AUTHORIZATION_FAILED"))),
            "failed:topic_authorization_failed",
        ),
        (PartitionsFailedError("app", {OLD[0]: timeout(), OLD[1]: timeout()}), "unknown:partly_deleted"),
    ],
)
async def test_each_answer_has_one_meaning(tmp_path: Path, error: Any, fate: str) -> None:
    admin, layout, of = await ready(tmp_path)
    admin.forget_errors["app"] = error
    assert await outcomes(admin, layout, of) == {"app [old]": fate}


async def test_a_lost_answer_is_settled_by_looking_again_and_never_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, of = await ready(tmp_path)
    forget_offsets = admin.delete_consumer_group_offsets

    async def lose(group_id: str, partitions: Any, **how: Any) -> None:
        await forget_offsets(group_id, partitions, **how)
        raise OutcomeUnknownError("the connection closed")

    monkeypatch.setattr(admin, "delete_consumer_group_offsets", lose)
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:confirmed"}
    assert admin.asked("delete offsets") == ["app"]


async def test_the_stop_switch_the_lease_and_an_old_reading_keep_the_topic(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    lease = ScriptedLease()
    lease.lose()
    assert await outcomes(admin, layout, of, lease=lease) == {"app [old]": "kept:lease_lost"}
    clock = iter(range(0, 100_000, 20))
    assert await outcomes(admin, layout, of, monotonic=lambda: float(next(clock))) == {"app [old]": "kept:too_slow"}
    (layout.root / "STOP").write_bytes(b"stop it")
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:stopped"}
    assert old_offsets(admin) == SAVED


async def test_a_request_never_leaves_later_than_its_reading_allows(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await prune(admin, layout, of)
    (within,) = admin.send_within
    assert within is not None
    assert 10 < within <= 15


async def test_a_request_without_an_answer_is_given_up(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    admin.delete_hangs = True
    result = await prune(admin, layout, of, max_delete_seconds=0.05)
    assert fates(result) == {"app [old]": "failed:still_there"}
    assert read_history(layout, CLUSTER_ID).deletions().keys() == {"app [old]"}, "it may still be done"


async def test_a_plan_that_does_not_fit_prunes_nothing(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)

    async def refused(match: str, **how: Any) -> None:
        with pytest.raises(PlanError, match=match):
            await prune(admin, layout, of, **how)

    await refused("digest", digest="0" * 64)
    await refused("protects", protects=lambda group_id: group_id == "app")
    await refused("dry runs only", floors=SiteFloors(dry_run_only=True))
    await refused("undercuts", floors=SiteFloors(min_idle_seconds=7_201))
    await refused("log of commits", floors=SiteFloors(require_commit_log=True))
    await refused("policy_file", floors=SiteFloors(policy_file="/p"))
    await refused("expired", now=Ticking(of.expires_at))
    await refused("not approved", floors=SiteFloors(approve_above=0))
    await refused("not approved", approval=ApprovalTerms(rule="always"))
    admin.cluster = "another"
    await refused("another")
    admin.cluster = CLUSTER_ID
    admin.missing_brokers = {2: timeout()}
    with pytest.raises(IncompleteListingError):
        await prune(admin, layout, of)
    assert old_offsets(admin) == SAVED


async def test_a_plan_prunes_nothing_on_another_cluster_with_the_same_id(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    of = plan(layout, await snapshots(admin, layout, view=partial(read_view_for_snapshot, admin)))
    admin.hosts = {7: "other"}
    for dry_run in (True, False):
        with pytest.raises(PlanError, match="none of its brokers"):
            await prune(admin, layout, of, dry_run=dry_run)
    assert old_offsets(admin) == SAVED


async def test_a_dry_run_looks_whose_the_backup_is_too(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await back_up_plan(admin, layout, of, now=lambda: of.created_at)
    path = layout.backup_manifest(of.plan_id)
    path.write_bytes(json.dumps({**json.loads(path.read_bytes()), "plan_digest": "0" * 64}).encode())
    for dry_run in (True, False):
        with pytest.raises(BackupError, match="does not belong to plan"):
            await prune(admin, layout, of, dry_run=dry_run)
    assert old_offsets(admin) == SAVED


async def test_an_approval_counts_topics_and_can_except_some(tmp_path: Path) -> None:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    of = await planned(admin, layout)
    asked = {"task": "approve"}
    seal_question(layout, of, asked, of.created_at)
    answer: dict[str, Any] = {
        "asked_by": asked,
        "approved": True,
        "person": {"name": "ann"},
        "responded_at": of.created_at.isoformat(),
    }
    seal_answer(layout, of, confirmed=2, excluded=["zap [old]"], **answer)
    result = await prune(admin, layout, of, floors=SiteFloors(approve_above=0))
    assert fates(result) == {"app [old]": "deleted:safe", "zap [old]": "kept:excluded"}
    approval = json.loads(result.record.read_bytes())["approval"]
    assert (approval["approved_by"], approval["excluded"]) == ("ann", ["zap [old]"])


async def test_of_two_runs_at_once_one_prunes(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    results = await asyncio.gather(prune(admin, layout, of), prune(admin, layout, of), return_exceptions=True)
    done = [fates(each)["app [old]"] for each in results if isinstance(each, DeletionResult)]
    assert done.count("deleted:safe") == 1
    assert admin.asked("delete offsets") == ["app"]


GONE = GroupOutcome(group_id="app", outcome=Outcome.GONE, code="gone", reason="it does not exist any more")
ALIVE = GroupOutcome(group_id="app", outcome=Outcome.KEPT, code="has_members", reason="it has 2 member(s)")


def record(layout: Layout, at: datetime, outcome: GroupOutcome) -> None:
    """Write a clean-up's run, as its recheck records it."""
    journal = Journal(layout.base, CLUSTER_ID)
    header = {"run_id": f"run-{at:%H%M}", "request_id": f"plan-{at:%H%M}", "dry_run": False}
    run = journal.begin(header, at, after=history_before(journal))
    run.conclude([outcome], at)
    run.end([outcome], {"counts": {}}, at)


@pytest.mark.parametrize(
    "looks", [[GONE], [GONE, ALIVE], [ALIVE, GONE, ALIVE, ALIVE]], ids=["gone", "then alive", "long"]
)
@pytest.mark.parametrize("folded", [False, True])
async def test_gone_restarts_the_idle_time_of_topics(tmp_path: Path, looks: list[GroupOutcome], folded: bool) -> None:
    """At 1:20 it is found gone, and somebody makes it again before the snapshot at 2:00, with its old offsets."""
    _, layout, now = await watched(tmp_path)
    for number, outcome in enumerate(looks):
        record(layout, NOW + HOUR * 4 / 3 + HOUR / 30 * number, outcome)
        if folded:
            fold_snapshots(layout, CLUSTER_ID)
    found = plan(layout, now)
    assert (found.group_ids, kept(found)) == ([], {"app [old]": "doubt"})


@pytest.mark.promise(1)
async def test_a_group_that_moves_to_another_broker_after_its_reading_is_not_pruned_there(tmp_path: Path) -> None:
    """What was read may be what a broker knew that had been replaced: the new coordinator knows what happened since."""
    admin, layout, of = await ready(tmp_path)

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
    monkeypatch.setattr(chunk_loop, "_AT_ONCE", 1)
    admin, layout, lease = cluster(), layout_in(tmp_path), ScriptedLease()
    admin.commit("app", "older", 0, 1)
    of = await planned(admin, layout)
    assert len(of.groups) == 2

    def pause(call: str) -> None:
        lease.paused |= call == "delete offsets"

    admin.before = pause
    assert set((await outcomes(admin, layout, of, lease=lease)).values()) == {"deleted:safe", "kept:too_slow"}
    assert len(admin.coordinators) == 1
