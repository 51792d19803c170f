"""Signs of life that a judgement could overlook: without a cluster's id, removed, or by a pruning meanwhile."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airflow_kafka_groups.change import file_pruning
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.staleness.lives import NEVER
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.spark.jobs import judge_staleness
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.judged import judge, verdict_summary, verdicts
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, hour, judged, lives, reduced, seen, snapshot_id

pytestmark = pytest.mark.safety
DAY = 24


@pytest.mark.parametrize("complete", [True, False])
def test_life_in_a_snapshot_that_does_not_know_its_cluster_counts(tmp_path: Path, complete: bool) -> None:
    """Brokers that start may not know the cluster's id yet."""
    write_snapshot(tmp_path, 0, seen(0))
    at = hour(2).isoformat()
    changes: dict[str, Any] = {"kafka_cluster_id": None, "observed_at": at, "started_at": at}
    if not complete:
        changes |= {"complete": False, "missing_brokers": {"2": "down"}}
    write_snapshot(tmp_path, 2, seen(2, state="Stable", members=1), **changes)
    write_snapshot(tmp_path, 3, seen(3))
    judge(tmp_path, "--min-idle-seconds", str(3 * HOUR))
    (found,) = verdicts(tmp_path, 3)
    assert found["verdict"] != "stale", found["reason"]


@pytest.mark.parametrize(("at", "observations", "verdict"), [(2.5, 1, "settling"), (1.5, 2, "stale"), (-1, 4, "stale")])
def test_observations_are_counted_from_the_last_commit(at: float, observations: int, verdict: str) -> None:
    times = (0, 1, 2, 9)
    history = [seen(number) for number in times]
    policy = StalenessPolicy(min_idle_seconds=6 * HOUR, min_observations=2)
    found = lives(reduced(history), policy=policy)
    committed_at, *begun = (int(hour(number).timestamp()) * 1_000_000 for number in (at, *times))
    (row,) = judged(found.with_last_records(*map(np.array, ([committed_at], [NEVER], begun))), policy)
    assert (row["observations"], row["verdict"]) == (observations, verdict), row["reason"]


@pytest.mark.parametrize(
    ("epochs", "since", "verdict"),
    [((7, 7, 7, 7), 0, "stale"), ((7, 7, 9, 9), 2, "moving"), ((7, None, 7, 7), 2, "moving")],
    ids=["unmoved", "moved", "not known once"],
)
@pytest.mark.promise(1)
def test_a_group_epoch_that_moved_is_a_sign_of_life(epochs: Sequence[int | None], since: int, verdict: str) -> None:
    """A member of the consumer protocol (KIP-848) came, committed nothing, and left between two snapshots."""
    history = [seen(number, group_type="consumer", group_epoch=epoch) for number, epoch in enumerate(epochs)]
    policy = StalenessPolicy(min_idle_seconds=2 * HOUR)
    (row,) = judged(lives(reduced(history), policy=policy), policy)
    assert (row["verdict"], row["idle_since"]) == (verdict, hour(since))
    assert verdict == "stale" or row["reason"].startswith("offsets or group epoch moved 60.0 min ago")


@pytest.mark.parametrize(
    ("at", "observations", "verdict", "reason"),
    [
        (2.5, 1, "moving", "a member joined or left it 30.0 min ago, by the log of commits; the policy requires 2.0 h"),
        (3.5, 0, "moving", "a member joined or left it 0.0 s ago"),
        (0.5, 3, "stale", "idle for 2.5 h (3 snapshots)"),
        (-0.1, 4, "stale", "idle for 3.0 h (4 snapshots)"),
    ],
)
@pytest.mark.promise(1)
def test_a_group_record_in_the_log_makes_a_group_younger_and_never_older(
    at: float, observations: int, verdict: str, reason: str
) -> None:
    policy = StalenessPolicy(min_idle_seconds=2 * HOUR)
    found = lives(reduced([seen(number) for number in range(4)]), policy=policy)
    recorded_at, *begun = (int(hour(number).timestamp()) * 1_000_000 for number in (at, *range(4)))
    (row,) = judged(found.with_last_records(*map(np.array, ([NEVER], [recorded_at], begun))), policy)
    assert (row["observations"], row["verdict"], row["last_moved_at"]) == (observations, verdict, None)
    assert row["reason"].startswith(reason)
    assert row["last_record_at"] == hour(at)


def test_pruning_leaves_no_hole_in_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest snapshot has a file of somebody else and stays: those after it, which saw a member, stay too."""
    for number in range(12):
        live: dict[str, Any] = {"state": "Stable", "members": 1} if 1 <= number <= 8 else {}
        write_snapshot(tmp_path, number * DAY, seen(number * DAY, **live))
    (oldest, *_) = sorted((tmp_path / CLUSTER / "data").iterdir())
    (oldest / "README").write_text("keep")
    monkeypatch.setattr(file_pruning, "LEAST_AGE", timedelta(0))
    limits = PruningLimits(days={FileKind.SNAPSHOT: 3}, keep_newest=1)
    now = hour(11 * DAY) + timedelta(hours=7)
    report = prune(Layout(tmp_path, CLUSTER), limits, now=now, dry_run=False)
    assert report.removed == {"snapshot": ()}
    judge(tmp_path, "--min-idle", "6d")
    (found,) = verdicts(tmp_path, 11 * DAY)
    assert (found["verdict"], found["idle_seconds"]) == ("settling", 2 * 86_400)
    (oldest / "README").unlink()
    assert len(prune(Layout(tmp_path, CLUSTER), limits, now=now, dry_run=False).removed["snapshot"]) == 9


@pytest.mark.parametrize("step", ["asked_for", "write_summary"])
def test_nothing_is_judged_by_snapshots_that_are_removed_before_the_summary_is_there(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore's record goes with the last snapshot from before it, unless the pruning sees that summary."""
    for day in range(4):
        write_snapshot(tmp_path, 24 * day, seen(24 * day))
    original = getattr(judge_staleness, step)
    monkeypatch.setattr(file_pruning, "LEAST_AGE", timedelta(0))

    def pruned_before(*args: Any) -> Any:
        limits = PruningLimits(days={FileKind.SNAPSHOT: 1}, keep_newest=1)
        removed = prune(Layout(tmp_path, CLUSTER), limits, now=hour(72) + timedelta(hours=7), dry_run=False).removed
        assert len(removed["snapshot"]) == 3
        return original(*args)

    monkeypatch.setattr(judge_staleness, step, pruned_before)
    with pytest.raises(SnapshotError, match="removed meanwhile"):
        judge(tmp_path)
    assert not verdict_summary(tmp_path, 72).exists()
    monkeypatch.undo()
    assert judge(tmp_path)["snapshots_used"] == 1


def test_a_job_that_is_killed_before_it_has_looked_for_them_has_judged_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its summary was there for plans before, and the snapshots were perhaps gone, with the record of a restore."""
    layout = Layout(tmp_path, CLUSTER)
    write_snapshot(tmp_path, 0, seen(0))

    def killed(*_: Any) -> None:
        assert verdict_summary(tmp_path, 0).exists(), "prunings heed it"
        raise KeyboardInterrupt

    monkeypatch.setattr(judge_staleness, "require_left", killed)
    with pytest.raises(KeyboardInterrupt):
        judge(tmp_path)
    with pytest.raises(SnapshotError, match="no complete summary"):
        load_verdicts(layout, snapshot_id(0))
    monkeypatch.undo()
    judge(tmp_path)
    assert len(load_verdicts(layout, snapshot_id(0))) == 1
