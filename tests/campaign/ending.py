"""What is compared at the end of a history: the journal with the truth, and every backup with what was deleted."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from airflow_kafka_groups.change.backup.file import find_backup
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.run_records import RunRecord
from tests.campaign.actions import layout_of
from tests.campaign.process import Process
from tests.campaign.world import DeletionTruth, World
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.records import complete_history


def check_end(world: World) -> None:
    """Compare what was written with what happened. Nothing goes wrong any more."""
    process = Process(world, 0)
    layout = layout_of(world, process)
    try:
        history = complete_history(layout.base, CLUSTER_ID)
    except KafkaGroupsError as error:
        world.violated("journal_lies", f"the journal cannot be read: {error}")
        return
    runs = {int(run.begun["actor"]["process"]): run for run in history.runs}
    _check_journal(world, runs)
    _check_intended(world, process, history)
    by_plan: dict[str, dict[str, DeletionTruth]] = defaultdict(dict)
    for deletion in world.deletions:
        run = runs.get(deletion.process)
        plan_id = None if run is None else run.begun["plan_id"]
        if plan_id is None:
            world.violated("deleted_without_backup", f"{deletion.group_id} at {deletion.at:.0f}: its run has no plan")
        else:
            by_plan[plan_id][deletion.group_id] = deletion
    for plan_id, deletions in by_plan.items():
        world.loops.run(process, _compare_restored(world, process, plan_id, deletions))


def _check_journal(world: World, runs: Mapping[int, RunRecord]) -> None:
    for deletion in world.deletions:
        run = runs.get(deletion.process)
        if run is None or deletion.group_id not in run.intents:
            world.violated("journal_lies", f"{deletion.group_id} was deleted at {deletion.at:.0f} without an intent")
        elif deletion.group_id not in run.possibly_deleted():
            told = run.outcomes[deletion.group_id]
            world.violated("journal_lies", f"{deletion.group_id} was deleted at {deletion.at:.0f}: {told}")
    happened = {(deletion.process, deletion.group_id) for deletion in world.deletions}
    gone = {group_id for _, group_id in happened}
    for number, run in runs.items():
        for group_id, outcome in run.outcomes.items():
            if outcome.outcome is Outcome.DELETED and (number, group_id) not in happened:
                if outcome.code == "confirmed" and group_id in gone:
                    continue  # it was gone when it was looked for: another run had deleted it
                world.violated("journal_lies", f"{group_id} is said to be deleted by process {number}: {outcome}")


def _check_intended(world: World, process: Process, history: DeletionHistory) -> None:
    """Check that whatever is possibly deleted is in a backup."""
    layout = layout_of(world, process)
    entries: dict[str, frozenset[str]] = {}
    for run in history.runs:
        plan_id, groups = run.begun["plan_id"], run.possibly_deleted()
        if not groups:
            continue
        if plan_id not in entries:
            try:
                backup = None if plan_id is None else find_backup(layout, plan_id)
            except KafkaGroupsError as error:
                world.violated("deleted_without_backup", f"the backup of {plan_id} cannot be read: {error}")
                continue
            entries[plan_id] = frozenset(() if backup is None else backup.entries)
        if missing := groups.keys() - entries[plan_id]:
            world.violated("deleted_without_backup", f"{min(missing)} may be deleted and is not in the backup")


async def _compare_restored(
    world: World, process: Process, plan_id: str, deletions: Mapping[str, DeletionTruth]
) -> None:
    """Restore deleted groups to an empty cluster, and compare them with what they had."""
    admin = FakeAdmin(log=(0, 100_000))
    layout = layout_of(world, process)
    try:
        changes = await RestoreRequest(plan_id=plan_id, group_ids=list(deletions)).propose(admin, layout)
        await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    except KafkaGroupsError as error:
        world.violated("deleted_without_backup", f"{min(deletions)}: {error}")
        return
    await asyncio.sleep(0)
    for group_id, deletion in deletions.items():
        world.found["restores_compared"] += 1
        restored = admin.groups[group_id].offsets if group_id in admin.groups else {}
        if dict(restored) != dict(deletion.commits):
            world.violated("restores_different", f"{group_id}: {dict(deletion.commits)} was restored as {restored}")
