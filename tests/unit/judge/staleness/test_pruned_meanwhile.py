"""Snapshots that a pruning removes while a job judges by them: records that spare groups may be gone with them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.change import file_pruning
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.spark.jobs import judge_staleness
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.judged import judge, verdict_summary
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import hour, seen, snapshot_id

pytestmark = pytest.mark.safety


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
    with pytest.raises(exceptions.SnapshotError, match="no complete summary"):
        load_verdicts(layout, snapshot_id(0))
    monkeypatch.undo()
    judge(tmp_path)
    assert len(load_verdicts(layout, snapshot_id(0))) == 1
