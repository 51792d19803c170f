"""Mark, notify, wait, look again, delete: with a policy file, a journal and the deletion itself."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.plan.notify import Notified
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.notice_book import note
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from tests.exhaustive.change.plan.notices import DAY, POLICY, Story, waiting
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.marks import marks_in
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import judge
from tests.unit.judge.policy.files import policy_of


async def test_two_clean_ups_of_parts_of_a_cluster_leave_each_other_s_marks_alone(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "web1")
    for day in range(3):
        for hour, include in enumerate(("pay*", "web*")):
            at = NOW + day * DAY + hour * timedelta(hours=1)
            plan = await story.plan(at, include=(include,))
            assert not plan.group_ids
            story.notify(plan, at + timedelta(minutes=5))
    assert [notice.owner for notice in story.sent] == ["pay", "web"], "nobody is notified every day"
    assert (await story.plan(NOW + 3 * DAY, include=("pay*",))).group_ids == ["pay1"]
    del story.admin.groups["web1"]
    complete = await story.plan(NOW + 4 * DAY)
    story.notify(complete, NOW + 4 * DAY)
    assert set(marks_in(story.layout.base, CLUSTER_ID)) == {"pay1"}, "what is gone has no mark"


@pytest.mark.safety
async def test_mark_notify_wait_look_again_delete(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "pay2", "web1", "soon1")
    first = await story.plan(NOW)
    assert (first.group_ids, waiting(first)) == (["soon1"], ["pay1", "pay2", "web1"])
    done = story.notify(first, NOW + timedelta(minutes=5))
    assert (done.marked, done.notified, done.failed) == (3, {"pay": 2, "web": 1}, {})
    assert [(notice.owner, notice.contact, notice.groups) for notice in story.sent] == [
        ("pay", "pay@example.com", ("pay1", "pay2")),
        ("web", "web@example.com", ("web1",)),
    ]
    second = await story.plan(NOW + DAY)
    assert waiting(second) == ["pay1", "pay2", "web1"]
    assert story.notify(second, NOW + DAY + timedelta(minutes=5)) == Notified()
    assert len(story.sent) == 2, "nobody is notified twice"
    third = await story.plan(NOW + 3 * DAY)
    assert set(third.group_ids) == {"pay1", "pay2", "web1", "soon1"}
    assert await story.delete(third, NOW + 3 * DAY + timedelta(minutes=10)) == dict.fromkeys(
        third.group_ids, ("deleted", "safe")
    )


@pytest.mark.safety
async def test_a_group_that_lived_since_its_mark_is_notified_again(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "web1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    plan = await story.plan(NOW + 5 * DAY, idle_since=NOW + 3 * DAY)
    assert waiting(plan) == ["pay1", "web1"], "the offsets are the same, and somebody was there in between"
    later = story.notify(plan, NOW + 5 * DAY + timedelta(minutes=5))
    assert (later.marked, later.notified) == (2, {"pay": 1, "web": 1})
    assert marks_in(tmp_path, CLUSTER_ID)["pay1"].marked_at == NOW + 5 * DAY + timedelta(seconds=1)


async def test_a_mark_goes_when_the_group_lives_and_stays_where_another_reason_keeps_it(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "web1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    alive = await story.plan(NOW + DAY, verdict="live", reason="in use")
    story.notify(alive, NOW + DAY)
    assert marks_in(tmp_path, CLUSTER_ID) == {}
    story.notify(await story.plan(NOW + 2 * DAY), NOW + 2 * DAY)
    story.file = policy_of(tmp_path, POLICY.replace("rules:", "protect: pay*\n    rules:"))
    story.notify(await story.plan(NOW + 3 * DAY), NOW + 3 * DAY)
    assert set(marks_in(tmp_path, CLUSTER_ID)) == {"pay1", "web1"}


async def test_an_old_task_that_is_cleared_notifies_nobody_again(tmp_path: Path) -> None:
    """Its groups have lived since, or are gone: their marks are, and all of their owners were notified once more."""
    story = Story(tmp_path, "pay1", "web1")
    old = await story.plan(NOW)
    story.notify(old, NOW + timedelta(minutes=5))
    story.notify(await story.plan(NOW + DAY, verdict="live", reason="in use"), NOW + DAY)
    del story.admin.groups["pay1"]
    story.admin.add("web2", ("t", 0, 5))
    story.notify(await story.plan(NOW + 5 * DAY, idle_since=NOW + 3 * DAY), NOW + 5 * DAY + timedelta(minutes=5))
    marks, sent = marks_in(tmp_path, CLUSTER_ID), len(story.sent)
    assert set(marks) == {"web1", "web2"}
    assert story.notify(old, NOW + 60 * DAY, dry_run=True) == Notified()
    assert story.notify(old, NOW + 60 * DAY) == Notified(marked=2, notified={"pay": 1, "web": 1})
    assert len(story.sent) == sent
    assert marks_in(tmp_path, CLUSTER_ID) == marks, "the marks of later plans stay"


async def test_an_old_task_sends_nothing_to_a_contact_that_was_corrected_since(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    old = await story.plan(NOW)
    story.notify(old, NOW + timedelta(minutes=5))
    story.file = policy_of(tmp_path, POLICY.replace("pay@", "payments@"))
    story.notify(await story.plan(NOW + DAY), NOW + DAY, fails=("pay",))
    assert story.notify(old, NOW + 2 * DAY) == Notified(marked=1, notified={"pay": 1})
    assert [notice.contact for notice in story.sent] == ["pay@example.com"]


async def test_a_repeat_notifies_those_whose_message_failed_unless_they_lived_since(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "pay2", "web1")
    old = await story.plan(NOW)
    story.notify(old, NOW + timedelta(minutes=5), fails=("pay",))
    del story.admin.groups["pay1"]
    story.notify(await story.plan(NOW + timedelta(hours=1)), NOW + timedelta(hours=2), fails=("pay",))
    assert story.notify(old, NOW + timedelta(hours=3)).notified == {"pay": 1, "web": 1}
    assert story.sent[-1].groups == ("pay2",)
    sent = len(story.sent)
    assert story.notify(old, NOW + timedelta(hours=4)).notified == {"pay": 1, "web": 1}
    assert len(story.sent) == sent


@pytest.mark.safety
async def test_an_owner_who_cannot_be_notified_keeps_the_groups_and_holds_nobody_up(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "web1")
    done = story.notify(await story.plan(NOW), NOW, fails=("pay",))
    assert (done.failed, done.notified) == ({"pay": "OSError"}, {"web": 1})
    plan = await story.plan(NOW + 5 * DAY)
    assert (plan.group_ids, waiting(plan)) == (["web1"], ["pay1"])
    assert story.notify(plan, NOW + 5 * DAY).notified == {"pay": 1}


@pytest.mark.safety
async def test_without_a_contact_nobody_is_notified_and_nothing_deleted(tmp_path: Path) -> None:
    story = Story(tmp_path, "other")
    assert story.notify(await story.plan(NOW), NOW) == Notified(marked=1, without_contact=1)
    assert waiting(await story.plan(NOW + 5 * DAY)) == ["other"]


async def test_a_dry_run_writes_and_sends_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    assert story.notify(await story.plan(NOW), NOW, dry_run=True) == Notified(marked=1, notified={"pay": 1})
    assert (story.sent, marks_in(tmp_path, CLUSTER_ID)) == ([], {})


@pytest.mark.safety
async def test_the_deletion_itself_refuses_a_group_without_a_notice(tmp_path: Path) -> None:
    """Whatever a plan says: here it was made as if everybody had been notified."""
    story = Story(tmp_path, "pay1", "web1", "soon1")
    honest = await story.plan(NOW)
    story.notify(honest, NOW, fails=("web",))
    reader = SnapshotReader(story.layout, honest.snapshot_id)
    lax = replace(story.file, rules=tuple(replace(rule, notice_seconds=0.0) for rule in story.file.rules))
    planned = make_plan(
        verdicts_of(judge(reader)),
        reader,
        PlanPolicy(max_share=1.0).by_file(lax),
        NOW + timedelta(minutes=2),
        owners=lax.owners,
    )
    forged = replace(planned, policy=honest.policy)
    save_plan(story.layout, forged)
    outcomes = await story.delete(forged, NOW + timedelta(minutes=10))
    assert outcomes == {
        "pay1": ("kept", "not_notified"), "web1": ("kept", "not_notified"), "soon1": ("deleted", "safe"),
    }  # fmt: skip
    assert set(story.admin.groups) == {"pay1", "web1"}


@pytest.mark.safety
async def test_a_mark_that_is_lost_after_the_plan_keeps_the_group(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW)
    plan = await story.plan(NOW + 5 * DAY)
    assert plan.group_ids == ["pay1"]
    ledger = Ledger(story.layout, CLUSTER_ID)
    note(ledger, "p", dict.fromkeys(ledger.notices()), NOW)
    assert await story.delete(plan, NOW + 5 * DAY + timedelta(minutes=5)) == {"pay1": ("kept", "not_notified")}


@pytest.mark.safety
async def test_a_contact_that_was_corrected_is_notified_too(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", "web1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    ready = await story.plan(NOW + 3 * DAY)
    assert set(ready.group_ids) == {"pay1", "web1"}
    story.file = policy_of(tmp_path, POLICY.replace("pay@", "payments@"))
    plan = await story.plan(NOW + 3 * DAY)
    assert (plan.group_ids, waiting(plan)) == (["web1"], ["pay1"])
    assert "somewhere else" in plan.kept[0].reason
    outcomes = await story.delete(ready, NOW + 3 * DAY + timedelta(minutes=2))
    assert outcomes == {"pay1": ("kept", "policy"), "web1": ("deleted", "safe")}
    done = story.notify(plan, NOW + 3 * DAY + timedelta(minutes=5))
    assert (done.marked, done.notified) == (0, {"pay": 1}), "it was marked three days ago"
    assert story.sent[-1].contact == "payments@example.com"
    assert waiting(await story.plan(NOW + 4 * DAY)) == ["pay1"]
    assert (await story.plan(NOW + 6 * DAY)).group_ids == ["pay1"]


MOVED = POLICY.replace('"pay*"', '"other*"').replace('"web*"', '"*"')


@pytest.mark.safety
async def test_a_new_owner_has_to_be_notified_too(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    story.file = policy_of(tmp_path, MOVED)
    plan = await story.plan(NOW + 3 * DAY)
    assert (plan.group_ids, waiting(plan)) == ([], ["pay1"])
    assert story.notify(plan, NOW + 3 * DAY + timedelta(minutes=5)).notified == {"web": 1}
    assert waiting(await story.plan(NOW + 4 * DAY)) == ["pay1"]
    assert (await story.plan(NOW + 6 * DAY)).group_ids == ["pay1"]


@pytest.mark.safety
async def test_an_owner_who_changes_after_the_plan_keeps_the_group(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    plan = await story.plan(NOW + 3 * DAY)
    assert plan.group_ids == ["pay1"]
    story.file = policy_of(tmp_path, MOVED)
    assert await story.delete(plan, NOW + 3 * DAY + timedelta(minutes=5)) == {"pay1": ("kept", "policy")}


@pytest.mark.safety
async def test_a_group_that_was_kept_alive_since_its_mark_is_notified_again(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    alive = {"pay1": KeptAlive(NOW + 5 * DAY, NOW + 6 * DAY)}
    plan = await story.plan(NOW + 9 * DAY, kept_alive=alive)
    assert (plan.group_ids, waiting(plan)) == ([], ["pay1"])
    assert story.notify(plan, NOW + 9 * DAY + timedelta(minutes=5)).notified == {"pay": 1}


async def test_an_old_task_whose_plan_had_nothing_new_to_say_changes_nothing_when_it_is_cleared(tmp_path: Path) -> None:
    """It wrote nothing, so months later it seemed to be new: it mailed all owners, and forgot later plans' marks."""
    story = Story(tmp_path, "pay1", "web1")
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    quiet = await story.plan(NOW + DAY)
    assert story.notify(quiet, NOW + DAY + timedelta(minutes=5)) == Notified()
    story.notify(await story.plan(NOW + 2 * DAY, verdict="live", reason="in use"), NOW + 2 * DAY + timedelta(minutes=5))
    story.admin.add("web2", ("t", 0, 5))
    del story.admin.groups["web1"]
    story.notify(await story.plan(NOW + 9 * DAY, idle_since=NOW + 3 * DAY), NOW + 9 * DAY + timedelta(minutes=5))
    marks, sent = marks_in(tmp_path, CLUSTER_ID), len(story.sent)
    assert set(marks) == {"pay1", "web2"}
    for dry_run in (True, False):
        assert story.notify(quiet, NOW + 60 * DAY, dry_run=dry_run) == Notified()
    assert len(story.sent) == sent
    assert marks_in(tmp_path, CLUSTER_ID) == marks, "the marks of later plans stay"


async def test_a_plan_that_has_expired_marks_nothing(tmp_path: Path) -> None:
    """Its task had failed, and was cleared after later plans: it forgot their marks, and notified of what has lived."""
    story = Story(tmp_path, "pay1")
    late = await story.plan(NOW)
    story.notify(await story.plan(NOW + 2 * DAY, verdict="live", reason="in use"), NOW + 2 * DAY + timedelta(minutes=5))
    story.admin.add("web1", ("t", 0, 5))
    del story.admin.groups["pay1"]
    story.notify(await story.plan(NOW + 9 * DAY), NOW + 9 * DAY + timedelta(minutes=5))
    marks, sent = marks_in(tmp_path, CLUSTER_ID), len(story.sent)
    assert set(marks) == {"web1"}
    for dry_run in (True, False):
        assert story.notify(late, late.expires_at + timedelta(seconds=1), dry_run=dry_run) == Notified()
    assert len(story.sent) == sent
    assert marks_in(tmp_path, CLUSTER_ID) == marks


async def test_what_many_owners_cost_grows_with_their_number(tmp_path: Path) -> None:
    """Each message made a copy of all marks: twice as many owners took four times the storage."""
    sizes = []
    for count in (20, 40):
        owners = "".join(f"  o{number}: {{groups: 'o{number}-*', contact: c}}\n" for number in range(count))
        policy = f"version: 1\nowners:\n{owners}rules: [{{name: all, action: delete, idle: 1d, notice: 2d}}]\n"
        folder = tmp_path / str(count)
        folder.mkdir()
        story = Story(folder, *(f"o{number}-app" for number in range(count)), policy=policy)
        plan = await story.plan(NOW)
        assert len(story.notify(plan, NOW).notified) == count
        assert all(mark.notified_at is not None for mark in marks_in(folder, CLUSTER_ID).values())
        sizes.append(sum(path.stat().st_size for path in folder.glob("_journal/*/log/*.json")))
    assert sizes[1] < 2.2 * sizes[0]
