"""Clocks that are wrong, or change, while owners are notified: none of them shortens a notice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion.guards.owner_notices import kept_unnoticed
from airflow_kafka_groups.change.plan.notify import Notified, notify_owners
from airflow_kafka_groups.judge.policy.notice import Notice, why_not_noticed
from airflow_kafka_groups.ledger.journal.history import DeletionHistory
from airflow_kafka_groups.ledger.notice_book import NoticeBook
from tests.exhaustive.change.plan.notices import DAY, Story, waiting
from tests.fakes.groups import CLUSTER_ID, NOW


@pytest.mark.safety
async def test_a_clock_that_is_behind_while_owners_are_notified_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW - 5 * DAY)
    assert waiting(await story.plan(NOW + timedelta(hours=1))) == ["pay1"]
    assert waiting(await story.plan(NOW + 2 * DAY)) == ["pay1"], "counted from the plan by which it was marked"
    assert (await story.plan(NOW + 2 * DAY + timedelta(minutes=1))).group_ids == ["pay1"]


@pytest.mark.safety
async def test_a_clock_that_goes_back_between_mark_and_message_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    times = iter([NOW + timedelta(minutes=5), NOW + timedelta(minutes=5), NOW - 5 * DAY])
    notify_owners(story.layout, await story.plan(NOW), story.sent.append, dry_run=False, now=lambda: next(times))
    assert len(story.sent) == 1
    assert waiting(await story.plan(NOW + timedelta(hours=1))) == ["pay1"]


@pytest.mark.safety
def test_a_message_from_before_its_mark_counts_from_the_mark() -> None:
    odd = Notice(fingerprint="f", marked_at=NOW, notified_at=NOW - 9 * DAY, told_seconds=4.0)
    assert why_not_noticed(odd, 2 * 86_400.0, fingerprint="f", at=NOW + DAY, alive_at=NOW - DAY) is not None


@pytest.mark.safety
async def test_a_clock_that_is_ahead_while_groups_are_marked_hides_no_sign_of_life(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW + 3 * DAY)
    plan = await story.plan(NOW + 6 * DAY, idle_since=NOW + DAY)
    assert waiting(plan) == ["pay1"], "it had members after the snapshot that showed it stale"


@pytest.mark.safety
async def test_a_deletion_whose_clock_is_ahead_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW)
    plan = await story.plan(NOW + 5 * DAY)
    book = NoticeBook(tmp_path, CLUSTER_ID)
    marks = book.read()
    book.write({"pay1": replace(marks["pay1"], notified_at=NOW + 4 * DAY)}, NOW)
    kept = kept_unnoticed(story.layout, plan, DeletionHistory(), {}, NOW + 99 * DAY)
    assert list(kept) == ["pay1"]


async def test_a_clock_that_is_behind_when_all_messages_fail_makes_no_old_plan_new(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    old = await story.plan(NOW)
    assert story.notify(old, NOW - timedelta(minutes=10), fails=("pay",)).failed
    story.notify(await story.plan(NOW + DAY, verdict="live", reason="in use"), NOW + DAY + timedelta(minutes=5))
    assert story.notify(old, NOW + 60 * DAY) == Notified(marked_before=1)
    assert story.sent == []
