"""Notices that earlier versions gave: what they did not record is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.journal.notices import NoticeBook
from airflow_kafka_groups.maintenance.policy.notice import Notice
from tests.exhaustive.maintenance.plan.notices import DAY, POLICY, Story, waiting
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.unit.maintenance.policy.files import policy_of


@pytest.mark.safety
async def test_a_period_that_an_earlier_version_did_not_record_is_named_again(tmp_path: Path) -> None:
    """The owner may have been told of a longer one than the policy has by now."""
    story = Story(tmp_path, "pay1", policy=POLICY.replace("2d", "14d"))
    old = await story.plan(NOW)
    story.notify(old, NOW + timedelta(minutes=5))
    book = NoticeBook(story.layout.base, CLUSTER_ID)
    marks = {group_id: replace(mark, told_seconds=None) for group_id, mark in book.read().items()}
    book.write(marks, NOW + timedelta(minutes=6))
    story.file = policy_of(tmp_path, POLICY)
    plan = await story.plan(NOW + 3 * DAY)
    assert (plan.group_ids, waiting(plan)) == ([], ["pay1"]), "eleven days sooner than the owner was told"
    assert story.notify(old, NOW + 3 * DAY).notified == {}, "the old task that is cleared names no shorter period"
    assert story.notify(plan, NOW + 3 * DAY + timedelta(minutes=5)).notified == {"pay": 1}
    assert story.sent[1].notice_seconds == 2 * 86_400
    assert waiting(await story.plan(NOW + 5 * DAY)) == ["pay1"]
    assert (await story.plan(NOW + 6 * DAY)).group_ids == ["pay1"]


async def test_the_groups_of_a_message_are_counted_whose_number_an_earlier_version_did_not_record(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, "pay1", "pay2", "web1")
    plan, at = await story.plan(NOW), NOW + timedelta(minutes=5)
    told = {group.group_id: Notice(fingerprint=group.fingerprint or "", marked_at=NOW) for group in plan.kept}
    for owner in ("pay", "web"):  # each message had an entry with all marks
        for name in told:
            if name.startswith(owner):
                told[name] = replace(told[name], owner=owner, contact=f"{owner}@example.com", notified_at=at)
        book = NoticeBook(story.layout.base, CLUSTER_ID)
        book.read()
        book.write(told, at, plan_id=plan.plan_id, cluster=story.layout.cluster, notified=owner)
    done = story.notify(plan, NOW + timedelta(hours=1))
    assert (done.notified_before, done.notified) == ({"pay": 2, "web": 1}, {})
