"""A topic is recreated while a restore is under way: what is committed later skips it, what was before fails."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.restore import commit_changes
from airflow_kafka_groups.change.restore import current_logs as same_topics
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeResult
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import timeout
from tests.unit.change.scene import backed_up, layout_in, restored

pytestmark = pytest.mark.safety

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
GROUPS = [f"g{number}" for number in range(8)]
IDS = {"t": "old-id", "u": "u-id"}


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit each group by itself, by a look at the topics of its own."""
    monkeypatch.setattr(commit_changes, "_CHUNK_GROUPS", 1)
    monkeypatch.setattr(commit_changes, "_CHUNKS_AT_ONCE", 1)
    monkeypatch.setattr(same_topics, "_MAX_AGE_SECONDS", -1.0)


async def lost(tmp_path: Path, *more: TopicPartition) -> tuple[FakeAdmin, Layout, str]:
    """Return a cluster that has lost groups with a backup, and the plan of the backup."""
    admin, layout = FakeAdmin(log=(0, 1_000)), layout_in(tmp_path)
    admin.ids = dict(IDS)
    for group_id in GROUPS:
        admin.add(group_id, *((where.topic, where.partition, 900) for where in (T0, *more)))
    plan, _ = await backed_up(admin, layout)
    admin.groups.clear()
    return admin, layout, plan.plan_id


async def restore(admin: FakeAdmin, layout: Layout, plan_id: str) -> dict[str, ChangeResult]:
    done = await restored(admin, layout, plan_id)
    return {result.group_id: result for result in done.results}


def at_commit(admin: FakeAdmin, number: int, act: Any) -> None:
    """Call a function before the commit of this number, the first one being 0."""

    def before(call: str) -> None:
        if call == "describe" and len(admin.asked("alter")) == number:
            act()

    admin.before = before


def recreate(admin: FakeAdmin) -> None:
    """Recreate the topic: brokers forget the offsets of one that is deleted."""
    admin.ids, admin.log = {**IDS, "t": "new-id"}, (0, 2_000)
    for group in admin.groups.values():
        group.offsets.pop(T0, None)


async def test_later_groups_get_no_old_offsets_of_it_and_earlier_ones_are_named(tmp_path: Path) -> None:
    admin, layout, plan_id = await lost(tmp_path)
    at_commit(admin, 4, lambda: recreate(admin))
    found = await restore(admin, layout, plan_id)
    assert [group_id for group_id in GROUPS if admin.groups.get(group_id) and admin.groups[group_id].positions] == []
    assert [found[group_id].outcome.value for group_id in GROUPS] == ["failed"] * 4 + ["kept"] * 4
    assert "its id is new-id and was old-id, while offsets of t were committed" in found["g0"].reason
    assert "each of its topics was recreated" in found["g7"].reason


async def test_other_topics_of_a_group_are_restored(tmp_path: Path) -> None:
    admin, layout, plan_id = await lost(tmp_path, U0)
    at_commit(admin, 4, lambda: recreate(admin))
    found = await restore(admin, layout, plan_id)
    assert {group_id: admin.groups[group_id].positions for group_id in GROUPS} == {
        group_id: {U0: 900} for group_id in GROUPS
    }
    assert [found[group_id].outcome.value for group_id in GROUPS] == ["failed"] * 4 + ["changed"] * 4
    assert list(found["g7"].skipped) == ["t[0]"]
    assert found["g7"].partitions == 1


async def test_a_topic_of_which_another_partition_was_skipped_fails_too(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(log=(0, 1_000)), layout_in(tmp_path)
    admin.ids = dict(IDS)
    for group_id in GROUPS:
        admin.add(group_id, ("t", 0, 900), ("t", 1, 5_000))  # behind the end of its log
    plan, _ = await backed_up(admin, layout)
    admin.groups.clear()
    at_commit(admin, 4, lambda: recreate(admin))
    found = await restore(admin, layout, plan.plan_id)
    assert [list(found[group_id].skipped) for group_id in GROUPS] == [["t[1]"]] * 4 + [["t[1]", "t[0]"]] * 4
    assert [found[group_id].outcome.value for group_id in GROUPS] == ["failed"] * 4 + ["kept"] * 4
    assert "its id is new-id and was old-id, while offsets of t were committed" in found["g0"].reason


async def test_ids_that_cannot_be_read_keep_what_is_left(tmp_path: Path) -> None:
    admin, layout, plan_id = await lost(tmp_path)
    at_commit(admin, 4, lambda: setattr(admin, "ids_fail_with", timeout()))
    found = await restore(admin, layout, plan_id)
    assert [found[group_id].outcome.value for group_id in GROUPS] == ["unknown"] * 4 + ["kept"] * 4
    assert "whether its topics are those of the backup cannot be read" in found["g7"].reason


async def test_a_last_look_that_fails_verifies_nothing(tmp_path: Path) -> None:
    """All groups were called verified, though old offsets may be in topics that were recreated meanwhile."""
    admin, layout, plan_id = await lost(tmp_path)

    def last(call: str) -> None:
        if "offsets" in call and len(admin.asked("alter")) == len(GROUPS):
            admin.ids_fail_with = timeout()

    admin.before = last
    found = await restore(admin, layout, plan_id)
    assert {result.outcome.value for result in found.values()} == {"unknown"}
    assert "committed, but whether its topics are those of the backup cannot be read: no answer" in found["g0"].reason
    admin.ids_fail_with, admin.before = None, lambda _: None
    assert {result.outcome.value for result in (await restore(admin, layout, plan_id)).values()} == {"unchanged"}


async def test_no_later_try_is_a_success_while_a_recreated_topic_has_old_offsets(tmp_path: Path) -> None:
    """The next try left the topic out, as one that was recreated long ago, and nobody reset the groups."""
    admin, layout, plan_id = await lost(tmp_path, U0)

    def last(call: str) -> None:
        if "offsets" in call and len(admin.asked("alter")) == len(GROUPS):
            admin.ids = {**IDS, "t": "new-id"}

    admin.before = last
    assert {result.outcome.value for result in (await restore(admin, layout, plan_id)).values()} == {"failed"}
    admin.before = lambda _: None
    for result in (await restore(admin, layout, plan_id)).values():
        assert isinstance(result.skipped["t[0]"], Unread)
        assert "the group has its old offset there: reset it" in result.skipped["t[0]"]
    for group in admin.groups.values():
        del group.offsets[T0]
    for result in (await restore(admin, layout, plan_id)).values():
        assert not isinstance(result.skipped["t[0]"], Unread)


async def test_a_look_is_shared_for_some_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_topics, "_MAX_AGE_SECONDS", 5.0)
    admin, layout, plan_id = await lost(tmp_path)
    looks, ids = [], admin.topic_ids

    async def look(topics: Iterable[str]) -> dict[str, str]:
        looks.append(len(admin.asked("alter")))
        return await ids(topics)

    monkeypatch.setattr(admin, "topic_ids", look)
    await restore(admin, layout, plan_id)
    assert looks == [0, 0, len(GROUPS)], "for the proposal, the first chunk, and in the end"


async def test_changes_that_name_no_ids_need_none() -> None:
    admin = FakeAdmin()
    admin.ids_fail_with = timeout()
    changes = [Change(group_id="g0", after={T0: OffsetAndMetadata(1)})]
    assert await same_topics.SameTopics(admin, changes).without_recreated(changes) is changes
