"""The ids of topics in a backup: a restore never takes a new topic for the one before."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up, back_up_plan
from airflow_kafka_groups.change.restore.current_logs import ids_of, recreated_topics
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.cluster_view import read_view
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking, broker_error, timeout
from tests.unit.change.backup.scene import T0, T1, cluster
from tests.unit.change.scene import LATER, backed_up, delete_plan, layout_in, planned


def while_offsets_are_read(admin: FakeAdmin, **ids: str) -> None:
    """Let topics get other ids when they have been asked for, and offsets are about to be read."""

    def before(call: str) -> None:
        if call == "stable offsets":
            admin.ids |= ids

    admin.before = before


@pytest.mark.safety
@pytest.mark.parametrize("created_only", [False, True])
@pytest.mark.parametrize("how", ["by plan", "by plan without its snapshot", "by name"])
async def test_a_topic_that_is_recreated_while_offsets_are_read_is_not_restored(
    tmp_path: Path, how: str, created_only: bool
) -> None:
    """Where ``t`` does not exist before, the offsets are those of a topic that was deleted earlier."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5), ("u", 1, 6))
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    if created_only:
        del admin.ids["t"]
    if how == "by plan without its snapshot":
        layout.manifest(plan.snapshot_id).unlink()
    while_offsets_are_read(admin, t="id-of-the-new-t")
    admin.forget_calls()
    by_name = BackupRequest(group_ids=["a"])
    with pytest.raises(BackupError, match="topic 't' was created") if created_only else nullcontext():
        if how == "by name":
            backup = await back_up(admin, layout, by_name)
        else:
            backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    if created_only:
        return
    assert list(backup.entries) == ["a"]
    assert backup.topic_ids == {"t": "id-of-t", "u": "id-of-u"}
    reason = "the topic was recreated: its id is id-of-the-new-t and was id-of-t"
    assert await recreated_topics(admin, ids_of(load_backup(layout, backup.plan_id))) == {"t": reason}
    assert admin.call_names.count("offsets") == (how != "by plan"), "a plan's snapshot has the topics"


def two_groups() -> FakeAdmin:
    """Return a cluster where each of two groups has offsets of a topic of its own."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("u", 1, 6))
    admin.ends = {T0: (0, 50), TopicPartition("u", 1): (0, 7)}
    return admin


@pytest.mark.safety
@pytest.mark.parametrize("upgrades", [False, True])
async def test_what_is_deleted_in_an_upgrade_to_brokers_with_topic_ids_can_be_restored(
    tmp_path: Path, upgrades: bool
) -> None:
    """Brokers may begin to tell ids while offsets are being read, as in an upgrade to 2.8."""
    admin, layout = two_groups(), layout_in(tmp_path)
    plan = await planned(admin, layout)
    while_offsets_are_read(admin, **({"t": "id-of-t", "u": "id-of-u"} if upgrades else {}))
    if upgrades:
        with pytest.raises(BackupError, match="got its id, while offsets were read"):
            await back_up_plan(admin, layout, plan, now=Ticking(LATER))
        return
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    await delete_plan(admin, layout, plan)
    for group_id in ("a", "b"):
        (change,) = await RestoreRequest(plan_id=plan.plan_id, group_ids=[group_id]).propose(admin, layout)
        assert (change.kept, change.skipped) == (None, {})


@pytest.mark.safety
async def test_a_group_whose_topics_no_restore_would_have_is_not_deleted(tmp_path: Path) -> None:
    """Their ids were not known when its offsets were read: its backup could be deleted by, and not restored from."""
    admin, layout = two_groups(), layout_in(tmp_path)
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    plan = await planned(admin, layout)
    layout.manifest(plan.snapshot_id).unlink()
    admin.before = lambda call: setattr(admin, "offset_errors", {"a": timeout()} if call == "offsets" else {})
    with pytest.raises(BackupError, match="topic 't' was created, or got its id"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))


async def test_topics_without_an_id_are_left_out_of_it(tmp_path: Path) -> None:
    admin = cluster()
    admin.ids = {"t": "id-of-t", "elsewhere": "id"}
    _, backup = await backed_up(admin, layout_in(tmp_path))
    assert backup.topic_ids == {"t": "id-of-t"}


@pytest.mark.safety
async def test_a_topic_that_was_gone_at_the_backup_and_is_there_again_is_another(tmp_path: Path) -> None:
    """Brokers keep offsets of a deleted topic for a while: without id and log, any log that has them seemed right."""
    admin = cluster()
    admin.ids = {"t": "id-of-t"}
    layout = layout_in(tmp_path)
    admin.ends[TopicPartition("gone", 3)] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    plan, _ = await backed_up(admin, layout)
    del admin.groups["b"]
    admin.ends[TopicPartition("gone", 3)] = (0, 20)
    (there,) = await RestoreRequest(plan_id=plan.plan_id, group_ids=["b"]).propose(admin, layout)
    assert set(there.after) == {TopicPartition("gone", 3), T1}, "where nobody tells ids, the logs alone decide"
    admin.ids["gone"] = "id-of-a-new-one"
    (change,) = await RestoreRequest(plan_id=plan.plan_id, group_ids=["b"]).propose(admin, layout)
    assert set(change.after) == {T1}
    assert "its id is id-of-a-new-one and was not known" in change.skipped[TopicPartition("gone", 3)]


@pytest.mark.safety
async def test_a_group_of_a_topic_that_was_recreated_since_the_plan_is_not_deleted(tmp_path: Path) -> None:
    admin = cluster()
    admin.ids = {topic: f"id-of-{topic}" for topic in ("t", "gone", "x", "y")}
    layout = layout_in(tmp_path)
    plan = replace(await planned(admin, layout), view=await read_view(admin, admin.ids))
    admin.ids["gone"] = "id-of-the-new-one"
    backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert dict(backup.topic_ids) == {"t": "id-of-t"}
    assert dict(backup.not_backed_up) == {"b": "topic 'gone' was recreated since the plan was made"}
