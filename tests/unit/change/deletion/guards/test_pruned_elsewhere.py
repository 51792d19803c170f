"""A pruning of files, in this folder or another: what its snapshots showed of a plan's groups stays known."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.plan_policy import PLANNED_WITHIN
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SLOWEST
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.prune_topics import scene as topics
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, snapshot

pytestmark = pytest.mark.safety

WAITS = replace(POLICY, max_plan_age_seconds=PLANNED_WITHIN.total_seconds())
LIMITS = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
END = NOW + PLANNED_WITHIN - timedelta(minutes=2)
"""Shortly before the end of a plan that waits for as long as a plan can."""


@pytest.mark.parametrize("planned_at", [LATER, END - timedelta(hours=2)], ids=["at once", "late, by a cleared run"])
@pytest.mark.parametrize("folder", ["prod", "team"])
@pytest.mark.parametrize("seen_at", [NOW - timedelta(minutes=4), LATER + timedelta(hours=1)], ids=["behind", "later"])
async def test_what_a_snapshot_has_shown_in_use_is_kept_until_no_plan_is_carried_out_any_more(
    tmp_path: Path, planned_at: datetime, folder: str, seen_at: datetime
) -> None:
    """A day's snapshot was removed after two, and a plan waits for its approval, or is made yet, by an older one.

    A clock that is behind makes a snapshot seem to be older than the plan's; one that is ahead ends the plan too soon.
    """
    admin, layout, other = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, folder)
    reader = await snapshot(admin, layout)
    for members, at in ((1, seen_at), (0, END - timedelta(hours=3))):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, other, now=Ticking(at))
    ahead = END + timedelta(hours=23)
    assert prune(other, LIMITS, now=ahead, dry_run=False).removed["snapshot"] == ()
    plan = make_plan(verdicts_of(judge(reader)), reader, WAITS, planned_at)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(planned_at))
    assert fates(await delete(admin, layout, plan, now=Ticking(END))) == {"a": "kept:alive_before"}
    afterwards = LATER + timedelta(days=33) + SLOWEST
    await take_snapshot(admin, other, now=Ticking(afterwards))
    assert len(prune(other, LIMITS, now=afterwards, dry_run=False).removed["snapshot"]) == (
        2 if folder == "prod" else 1
    )


async def test_what_another_connection_has_shown_read_is_kept_though_topics_have_no_judgement(tmp_path: Path) -> None:
    """Topics are judged by the newest snapshot itself: a plan that is made by it later looks for others since then."""
    admin, layout, team = topics.cluster(), topics.layout_in(tmp_path), Layout(tmp_path, "team")
    at = await topics.snapshots(admin, layout)
    topics.subscribe(admin)
    await take_snapshot(admin, team, now=Ticking(at + timedelta(hours=1)))
    admin.groups["app"]._subscribed = frozenset({"live"})
    now = at + timedelta(days=4)
    await take_snapshot(admin, team, now=Ticking(now))
    assert prune(team, LIMITS, now=now + timedelta(minutes=1), dry_run=False).removed["snapshot"] == ()
    policy = replace(topics.POLICY, max_plan_age_seconds=WAITS.max_plan_age_seconds)
    assert topics.kept(topics.plan(layout, now + timedelta(minutes=2), policy)) == {"app [old]": "doubt"}
