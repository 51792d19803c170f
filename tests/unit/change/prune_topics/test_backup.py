"""The backup of a pruning, and the restore from it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest, pruned_names
from airflow_kafka_groups.exceptions import BackupError, OutcomeUnknownError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, broker_error
from tests.records import entries, runs
from tests.unit.change.prune_topics.scene import (
    OLD,
    SAVED,
    cluster,
    layout_in,
    old_offsets,
    outcomes,
    plan,
    planned,
    prune,
    ready,
    snapshots,
)

pytestmark = pytest.mark.safety


async def test_the_backup_is_of_this_plan_and_nothing_replaces_it(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await prune(admin, layout, of)
    manifest = json.loads(layout.backup_manifest(of.plan_id).read_bytes())
    assert (manifest["partial"], manifest["groups"], manifest["file"]["rows"]) == (True, 1, 2)
    await prune(admin, layout, of)
    assert json.loads(layout.backup_manifest(of.plan_id).read_bytes()) == manifest
    data = layout.root / "backups" / manifest["file"]["name"]
    data.write_bytes(b"damaged")
    with pytest.raises(BackupError):
        await prune(admin, layout, of)


@pytest.mark.parametrize("live", [True, False])
async def test_a_pruning_is_undone_by_a_restore_when_the_group_has_no_members(tmp_path: Path, live: bool) -> None:
    """Brokers refuse commits from outside to a group with members."""
    admin, layout, of = await ready(tmp_path)
    before = dict(admin.groups["app"].offsets)
    await prune(admin, layout, of)
    admin.commit("app", "live", 0, 500)
    admin.groups["app"].members = 2 if live else 0
    changes = await RestoreRequest(plan_id=of.plan_id).propose(admin, layout)
    (done,) = await apply_changes(admin, changes, dry_run=False)
    assert done.outcome is (ChangeOutcome.KEPT if live else ChangeOutcome.CHANGED)
    assert (old_offsets(admin) == {}) is live
    assert admin.groups["app"].positions[TopicPartition("live", 0)] == 500, "other topics are not touched"
    if not live:
        assert {where: admin.groups["app"].offsets[where] for where in OLD} == {where: before[where] for where in OLD}


async def test_a_topic_that_is_recreated_while_offsets_are_read_is_not_restored(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.ids = {"old": "id-of-old", "live": "id-of-live"}
    of = await planned(admin, layout)

    def recreate(call: str) -> None:
        if call == "stable offsets":
            admin.ids["old"] = "id-of-the-new-old"

    admin.before = recreate
    await back_up_plan(admin, layout, of, now=lambda: of.created_at)
    assert load_backup(layout, of.plan_id).topic_ids == {"old": "id-of-old"}


@pytest.mark.parametrize("upgrades", [False, True])
async def test_what_is_pruned_in_an_upgrade_to_brokers_with_topic_ids_can_be_restored(
    tmp_path: Path, upgrades: bool
) -> None:
    admin, layout, of = await ready(tmp_path)

    def upgrade(call: str) -> None:
        if call == "stable offsets" and upgrades:
            admin.ids = {"old": "id-of-old", "live": "id-of-live"}

    admin.before = upgrade
    if upgrades:
        with pytest.raises(BackupError, match="got its id, while offsets were read"):
            await outcomes(admin, layout, of)
        assert old_offsets(admin) == SAVED
        return
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe"}
    admin.groups["app"].members = 0
    (change,) = await RestoreRequest(plan_id=of.plan_id).propose(admin, layout)
    assert (change.kept, set(change.after)) == (None, set(OLD))


async def test_a_topic_that_was_recreated_since_the_plan_is_not_pruned(tmp_path: Path) -> None:
    """A broker that was down when the topic was deleted may still have its offsets: they are not the new topic's."""
    admin, layout = cluster(), layout_in(tmp_path)
    admin.ids = {"old": "id-of-old", "live": "id-of-live", "another": "id-of-another"}
    admin.commit("app", "another", 0, 1)
    of = plan(layout, await snapshots(admin, layout, view=partial(read_view_for_snapshot, admin)))
    admin.ids["old"] = "id-of-the-new-old"
    assert await outcomes(admin, layout, of) == {"app [another]": "deleted:safe", "app [old]": "kept:not_in_backup"}


async def test_a_restore_of_topics_keeps_newer_commits_and_makes_no_group(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await prune(admin, layout, of)
    admin.commit("app", "old", 0, 99)
    (change,) = await RestoreRequest(plan_id=of.plan_id).propose(admin, layout)
    assert change.kept is not None
    assert "used since" in change.kept
    del admin.groups["app"]
    (change,) = await RestoreRequest(plan_id=of.plan_id).propose(admin, layout)
    assert change.kept is not None
    assert "some topics only" in change.kept


async def test_a_pruned_group_is_no_deleted_group(tmp_path: Path) -> None:
    """The journal of deletions has both; what was pruned says nothing of the group."""
    admin, layout, of = await ready(tmp_path)
    await prune(admin, layout, of)
    history = read_history(layout, CLUSTER_ID)
    assert (set(history.deletions()), history.of_group("app")) == ({"app [old]"}, [])
    assert [run.begun["what"] for run in runs(tmp_path)] == ["prune-topics"]


OLDER = TopicPartition("older", 0)


async def pruned_beside_one_in_use(admin: FakeAdmin, layout: Layout) -> DeletionPlan:
    """Plan two topics, of which somebody uses one again before they are pruned; then let the group have no members."""
    admin.commit("app", "older", 0, 3)
    of = await planned(admin, layout)

    def use_again(call: str) -> None:
        if call == "describe":
            admin.commit("app", "older", 0, 40)

    admin.before = use_again
    assert await outcomes(admin, layout, of) == {"app [old]": "deleted:safe", "app [older]": "kept:moved"}
    admin.before = lambda call: None
    admin.groups["app"].members = 0
    return of


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.promise(2)
async def test_a_topic_that_was_kept_is_no_matter_to_the_restore_of_the_pruned_ones(
    tmp_path: Path, overwrite: bool
) -> None:
    """The backup has it, too. It was in use, so it must not be set back, nor keep the others from being restored."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await pruned_beside_one_in_use(admin, layout)
    changes = await RestoreRequest(plan_id=of.plan_id, overwrite=overwrite).propose(admin, layout)
    (done,) = await apply_changes(admin, changes, dry_run=False)
    assert (done.outcome, done.partitions) == (ChangeOutcome.CHANGED, 2)
    assert old_offsets(admin) == SAVED
    assert admin.groups["app"].positions[OLDER] == 40, "what was never pruned is not set back"
    assert "older[0]" in done.skipped
    # Once more: nothing is left to be done.
    (again,) = await apply_changes(
        admin, await RestoreRequest(plan_id=of.plan_id).propose(admin, layout), dry_run=False
    )
    assert again.outcome is ChangeOutcome.UNCHANGED


@pytest.mark.parametrize("overwrite", [False, True])
async def test_a_pruned_topic_that_is_used_since_keeps_its_newer_commits_and_no_other_topic(
    tmp_path: Path, overwrite: bool
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.commit("app", "older", 0, 3)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    admin.commit("app", "older", 0, 40)
    admin.groups["app"].members = 0
    changes = await RestoreRequest(plan_id=of.plan_id, overwrite=overwrite).propose(admin, layout)
    (done,) = await apply_changes(admin, changes, dry_run=False)
    assert done.outcome is ChangeOutcome.CHANGED
    assert old_offsets(admin) == SAVED
    assert admin.groups["app"].positions[OLDER] == (3 if overwrite else 40)


async def test_a_restore_needs_no_journal(tmp_path: Path) -> None:
    """Who undoes an accident may have lost it. Then all topics of the backup count as pruned."""
    admin, layout = cluster(), layout_in(tmp_path)
    of = await pruned_beside_one_in_use(admin, layout)
    (entry,) = entries(tmp_path, "begun")
    entry.write_bytes(b"damaged")
    changes = await RestoreRequest(plan_id=of.plan_id).propose(admin, layout)
    (done,) = await apply_changes(admin, changes, dry_run=False)
    assert (done.outcome, old_offsets(admin)) == (ChangeOutcome.CHANGED, SAVED)
    (change,) = await RestoreRequest(plan_id=of.plan_id, overwrite=True).propose(admin, layout)
    assert OLDER in change.after


async def test_a_group_that_is_called_like_a_topic_of_another_one_blocks_no_plan(tmp_path: Path) -> None:
    """Who may create groups chooses their names. What a backup lacks is named by topic, and what it has by group."""
    admin, layout = cluster(), layout_in(tmp_path)
    admin.groups["app [old]"] = cluster().groups["app"]
    admin.commit("app", "older", 0, 3)
    of = await planned(admin, layout)
    admin.commit("app", "old", 0, 8)
    assert await outcomes(admin, layout, of) == {
        "app [old]": "kept:moved",
        "app [older]": "deleted:safe",
        "app [old] [old]": "deleted:safe",
    }
    assert list(load_backup(layout, of.plan_id).not_backed_up) == ["app [old]"]
    manifest = json.loads(layout.backup_manifest(of.plan_id).read_bytes())
    manifest["not_backed_up"]["app [older]"] = "moved"
    layout.backup_manifest(of.plan_id).write_bytes(json.dumps(manifest).encode())
    with pytest.raises(BackupError, match="lists as not backed up"):
        await prune(admin, layout, of)


async def test_what_was_deleted_or_may_have_been_counts_and_what_was_refused_does_not(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    for group_id in ("lost", "refused"):
        admin.groups[group_id] = cluster().groups["app"]
    of = await planned(admin, layout)
    admin.forget_errors = {"lost": OutcomeUnknownError("lost"), "refused": broker_error("GROUP_AUTHORIZATION_FAILED")}
    await prune(admin, layout, of)
    await prune(admin, layout, of, dry_run=True)
    assert pruned_names(layout, load_backup(layout, of.plan_id)) == {"app [old]", "lost [old]"}


async def test_without_a_journal_that_can_be_read_it_is_not_known(tmp_path: Path) -> None:
    admin: FakeAdmin = cluster()
    layout = layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    backup = load_backup(layout, of.plan_id)
    assert pruned_names(layout, backup) == {"app [old]"}
    other = replace(backup, plan_id="20200101T000000Z-00000000")
    assert pruned_names(layout, other) is None, "no run of the plan"
    (entry,) = entries(tmp_path, "begun")
    entry.write_bytes(b"damaged")
    assert pruned_names(layout, backup) is None
