"""What a pruning does that died, ran twice, or could not write: no topic is pruned twice."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.journal import RunJournal, read_history
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import time_of
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, Ticking
from tests.unit.change.prune_topics.scene import (
    HOUR,
    SAVED,
    kept,
    old_offsets,
    outcomes,
    plan,
    prune,
    ready,
    restore,
    snapshots,
    subscribe,
)

pytestmark = pytest.mark.safety


class Killed(BaseException):
    """Ends the process at this point."""


async def killed(admin: FakeAdmin, layout: Layout, of: DeletionPlan) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011  # TaskGroups and threads wrap it
        await prune(admin, layout, of)


@pytest.mark.parametrize("moment", ["before the request", "after the request", "before the intent"])
@pytest.mark.parametrize("restored", [True, False])
@pytest.mark.promise(5)
async def test_a_process_that_dies_deletes_no_topic_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, restored: bool
) -> None:
    admin, layout, of = await ready(tmp_path)
    forget_offsets, intend = admin.delete_consumer_group_offsets, RunJournal.intend

    async def die(group_id: str, partitions: Any, **how: Any) -> None:
        if moment == "after the request":
            await forget_offsets(group_id, partitions, **how)
        raise Killed

    def die_before(self: RunJournal, *arguments: Any, **more: Any) -> None:
        if moment == "before the intent":
            raise Killed
        intend(self, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(admin, "delete_consumer_group_offsets", die)
        patched.setattr(RunJournal, "intend", die_before)
        await killed(admin, layout, of)
    assert old_offsets(admin) == ({} if moment == "after the request" else SAVED)
    if restored:
        restore(admin)
    fate = {
        ("before the intent", True): "deleted:safe",
        ("before the intent", False): "deleted:safe",
        ("after the request", False): "gone:gone",
    }.get((moment, restored), "kept:deleted_before")
    assert await outcomes(admin, layout, of) == {"app [old]": fate}
    assert len(admin.asked("delete offsets")) == (1 if moment != "before the request" else 0)
    possibly = read_history(layout, CLUSTER_ID).deletions()
    assert possibly.keys() == {"app [old]"}, "an intent counts as deleted"


async def test_what_was_pruned_and_restored_is_not_pruned_by_a_cleared_task(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    await prune(admin, layout, of)
    restore(admin)
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:deleted_before"}
    now = await snapshots(admin, layout, 1, first=of.created_at + HOUR)
    assert kept(plan(layout, now)) == {"app [old]": "doubt"}, "another plan has to watch it anew"
    now = await snapshots(admin, layout, 3, first=now + HOUR)
    assert plan(layout, now).group_ids == ["app [old]"]


async def test_a_newer_snapshot_of_a_worker_whose_clock_is_minutes_behind_counts(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    subscribe(admin)
    newer = await take_snapshot(admin, layout, now=Ticking(time_of(of.snapshot_id) - timedelta(minutes=4)))
    assert newer.snapshot_id < of.snapshot_id
    admin.groups["app"]._subscribed = frozenset({"live"})
    assert await outcomes(admin, layout, of) == {"app [old]": "kept:alive_before"}
