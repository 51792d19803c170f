"""The brokers' clocks are compared with those of the machines that take snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.evidence import Evidence
from airflow_kafka_groups.observe.snapshot.broker_clocks import ClockMarks, compared
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, newest_manifest
from airflow_kafka_groups.storage.layout import Clock, Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import POLICY, judge

pytestmark = pytest.mark.safety

HOUR, WEEK = timedelta(hours=1), timedelta(days=7)


def marks(at: datetime, ends: Mapping[int, int], newest: Mapping[int, timedelta]) -> ClockMarks:
    """Return marks; ``newest`` are the times of the newest records, from then on."""
    until = at + timedelta(seconds=1)
    return ClockMarks(at=at, until=until, ends=ends, newest={number: at + by for number, by in newest.items()})


def test_a_broker_is_behind_where_nothing_is_as_young_as_what_was_appended_since() -> None:
    first = compared(marks(NOW, {0: 9, 1: 9}, {0: -WEEK, 1: -HOUR}), None)
    assert (first.compared, first.seconds, first.off_at) == (0, 0, None), "an old record proves nothing"
    second = compared(marks(NOW + HOUR, {0: 10, 1: 9}, {0: -WEEK, 1: -HOUR}), first)
    assert (second.compared, second.off_seconds, second.off_ahead) == (1, (WEEK - HOUR).total_seconds(), False)


def test_a_quiet_partition_says_nothing_and_a_healthy_one_that_all_is_well() -> None:
    first = compared(marks(NOW, {0: 9, 1: 9}, {0: -WEEK, 1: -HOUR}), None)
    second = compared(marks(NOW + HOUR, {0: 9, 1: 30}, {0: -WEEK - HOUR, 1: timedelta()}), first)
    assert (second.compared, second.seconds, second.off_at) == (1, 0, None)


def test_a_broker_is_ahead_where_a_record_is_newer_than_now() -> None:
    found = compared(marks(NOW, {0: 9}, {0: HOUR}), None)
    assert (found.off_ahead, found.off_seconds) == (True, 3_599)


def test_five_minutes_are_allowed_and_what_was_found_is_remembered() -> None:
    assert compared(marks(NOW, {0: 9}, {0: timedelta(seconds=300)}), None).off_at is None
    off = compared(marks(NOW, {0: 9}, {0: timedelta(seconds=400)}), None)
    later = compared(marks(NOW + HOUR, {0: 9}, {0: timedelta()}), off)
    assert (later.seconds, later.off_seconds, later.off_at) == (0, 399, off.off_at)
    assert "synchronize the clocks" in later.why_off(NOW)
    assert later.why_off(NOW + HOUR) == "", "before the time that counts"


def test_a_small_difference_does_not_hide_a_larger_one_from_before() -> None:
    off = compared(marks(NOW, {0: 9}, {0: WEEK}), None)
    behind = compared(marks(NOW + HOUR, {0: 10}, {0: -HOUR - timedelta(minutes=10)}), off)
    assert (behind.seconds, behind.off_seconds, behind.off_ahead) == (600, off.off_seconds, True)
    assert behind.why_off(NOW + HOUR), "it counts for as long as the newer one does"


async def judged(tmp_path: Path, behind: timedelta) -> SnapshotManifest:
    """Take two snapshots between which something was committed, while a broker's clock was behind."""
    admin, layout, clock, end = FakeAdmin(), Layout(tmp_path, "prod"), Ticking(NOW), [0]
    admin.add("a", ("t", 0, 1))

    async def read(now: Clock) -> ClockMarks:
        end[0] += 1
        return marks(now(), {0: end[0]}, {0: -behind})

    for _ in range(2):
        await take_snapshot(admin, layout, now=clock, clocks=read)
    manifest = newest_manifest(layout)
    assert manifest is not None
    return manifest


async def test_a_log_of_commits_whose_brokers_clock_is_off_is_no_evidence(tmp_path: Path) -> None:
    manifest = await judged(tmp_path, WEEK)
    read = Evidence(commits_until=manifest.observed_at + HOUR)
    assert "behind that of the machine that took a snapshot" in read.gap(manifest, 86_400)
    assert read.sentence(manifest, 86_400).startswith("the history of snapshots only")
    healthy = await judged(tmp_path / "other", timedelta())
    assert read.gap(healthy, 86_400) == ""


@pytest.mark.parametrize("behind", [WEEK, timedelta(minutes=30)], ids=["more than the idle time", "less"])
async def test_by_more_than_the_idle_time_nothing_is_planned(tmp_path: Path, behind: timedelta) -> None:
    manifest = await judged(tmp_path, behind)
    reader = SnapshotReader(Layout(tmp_path, "prod"), manifest.snapshot_id)
    verdicts, now = verdicts_of(judge(reader)), manifest.observed_at
    assert POLICY.min_idle_seconds == 3_600
    if behind < HOUR:
        assert make_plan(verdicts, reader, POLICY, now).group_ids == ["a"]
        return
    with pytest.raises(PlanError, match="By more than an idle time, nothing is planned"):
        make_plan(verdicts, reader, POLICY, now)
