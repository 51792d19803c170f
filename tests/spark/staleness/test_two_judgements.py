"""Two jobs that judge one snapshot at once: what one says of itself never vouches for the verdicts of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError, SnapshotError
from airflow_kafka_groups.judge.staleness import judging
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA
from airflow_kafka_groups.storage.job_files import Storage
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.commits import describe_commits
from tests.histories.judged import judge, verdict_folder, verdict_summary
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, hour, seen, snapshot_id

pytestmark = [pytest.mark.spark, pytest.mark.safety]

IDLE = ("--min-idle-seconds", str(2 * HOUR))


@pytest.fixture
def strict(spark: SparkSession, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """Return a judgement that knows of a commit which no snapshot shows; the group is stale all the same."""
    for number in range(4):
        write_snapshot(tmp_path, number, seen(number, group="again"))
    known = {"group_id": "again", "partitions": 1, "last_commit_at": hour(1)}
    row = tuple(known.get(name) for name in COMMIT_GROUP_SCHEMA.names)
    history = tmp_path / "history"
    spark.createDataFrame([row], COMMIT_GROUP_SCHEMA).write.parquet(f"{history}/groups/run_id=r")
    describe_commits(history, read_until=hour(4).isoformat())
    return lambda: judge(tmp_path, *IDLE, "--commit-history", str(history), spark=spark)


def test_a_job_that_judges_between_the_verdicts_and_the_summary_of_another_is_noticed(
    tmp_path: Path, strict: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its verdicts are as many, and know of no commit: the group looks idle for 3 hours, with evidence for 2."""
    judged, layout = snapshot_id(3), Layout(tmp_path, CLUSTER)
    strict()
    assert [each.idle_seconds for each in load_verdicts(layout, judged)] == [2 * HOUR]
    write = judging.write_verdicts

    def judge_meanwhile(*arguments: Any) -> Any:
        found = write(*arguments)
        monkeypatch.setattr(judging, "write_verdicts", write)
        judge(tmp_path, *IDLE)
        return found

    monkeypatch.setattr(judging, "write_verdicts", judge_meanwhile)
    strict()
    with pytest.raises(SnapshotError, match=r"two jobs judged at once\. Run one again"):
        load_verdicts(layout, judged)
    strict()
    assert [each.idle_seconds for each in load_verdicts(layout, judged)] == [2 * HOUR]


def test_a_job_does_not_take_the_files_of_another_for_its_own(
    tmp_path: Path, strict: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two write at once, each deletes what the other one wrote before."""
    list_files = Storage.files

    def judged_meanwhile(storage: Storage, folder: str) -> list[str]:
        if folder.endswith(f"verdicts/{verdict_folder(tmp_path, 3).name}"):
            monkeypatch.setattr(Storage, "files", list_files)
            judge(tmp_path, *IDLE)
            verdict_summary(tmp_path, 3).unlink()  # it was killed before that
        return list_files(storage, folder)

    monkeypatch.setattr(Storage, "files", judged_meanwhile)
    with pytest.raises(JobError, match=r"of another job, which judged at the same time\. Run it again"):
        strict()
    assert not verdict_summary(tmp_path, 3).exists()
    assert strict()["files"] == [path.name for path in verdict_folder(tmp_path, 3).glob("part-*.parquet")]
