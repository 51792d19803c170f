"""The table of observations, and their files as Spark reads them: what the snapshots have, and each once."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError, SnapshotError
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.catalogue import CatalogueTable, add_observations
from airflow_kafka_groups.spark.judging import InTasks
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import OBSERVATION_COLUMNS
from tests.histories.commits import know_commits
from tests.histories.judged import judge, verdict_folder, verdict_summary, verdicts, write_hour
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, hour, seen, snapshot_id
from tests.unit.judge.staleness.test_observation_store import HOURS, manifest_of

pytestmark = pytest.mark.spark


class Table:
    """A table with rows of somebody else's under the id of a snapshot."""

    def __init__(self) -> None:
        self.rows: list[object] = ["other"]

    def counts(self, _: str) -> dict[str, int]:
        return {snapshot_id(0): len(self.rows)}

    def replace(self, _: str, rows: DataFrame, expected: Mapping[str, int]) -> None:
        self.rows = list(rows.collect())
        assert expected == {snapshot_id(0): len(self.rows)}


def test_rows_under_the_id_of_a_snapshot_without_groups_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, [])
    storage, table = LocalStorage(), Table()
    history = find_history(storage, tmp_path.as_uri(), CLUSTER)
    store = ObservationStore(storage, history)
    InTasks(spark).reduce(store)
    add_observations(spark, store, cast("CatalogueTable", table), CLUSTER)
    assert table.rows == []


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a base with three snapshots, reduced and judged."""
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path)
    return tmp_path


def test_observations_are_a_table_with_a_partition_for_each_snapshot(spark: SparkSession, judged: Path) -> None:
    table = spark.read.parquet(f"{judged.as_uri()}/{CLUSTER}/tables/observations")
    assert set(table.columns) == {column.name for column in OBSERVATION_COLUMNS} | {"snapshot_id"}
    counted = {row["snapshot_id"]: row["count"] for row in table.groupBy("snapshot_id").count().collect()}
    assert counted == {snapshot_id(0): 2, snapshot_id(1): 2, snapshot_id(2): 3}
    assert table.where("run_id <> snapshot_id").count() == 0
    assert not list((judged / CLUSTER).rglob(".*.tmp"))


class KilledError(BaseException):
    """What ends a job in these tests."""


@pytest.mark.parametrize(("at", "rows"), [("/tables/", 0), ("/summaries/", 3)])
def test_a_job_that_is_killed_between_data_and_manifest_leaves_what_the_next_one_uses_or_hides(
    spark: SparkSession, judged: Path, monkeypatch: pytest.MonkeyPatch, at: str, rows: int
) -> None:
    write_hour(judged, 3)

    link = os.link

    def killed(part: Path, path: Path) -> None:
        if at in str(path):
            raise KilledError
        link(part, path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KilledError):
            judge(judged)
    assert not manifest_of(judged, 3).exists()
    table = judged / CLUSTER / "tables" / "observations"
    assert list((judged / CLUSTER).rglob(".*.tmp"))
    assert spark.read.parquet(table.as_uri()).where(f"run_id = '{snapshot_id(3)}'").count() == rows
    assert judge(judged)["snapshots_reduced"] == 1
    assert [row["observations"] for row in verdicts(judged, 3)] == [1, 2, 4]
    assert spark.read.parquet(table.as_uri()).where(f"run_id = '{snapshot_id(3)}'").count() == 3


def test_a_snapshot_is_one_file_whatever_the_session_says(spark: SparkSession, judged: Path) -> None:
    write_hour(judged, 3)
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 1)
    try:
        assert judge(judged, spark=spark)["groups"] == 3
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")


def write_hours(base: Path) -> None:
    for number in range(4):
        write_snapshot(base, number, seen(number, group="again"))


@pytest.mark.safety
@pytest.mark.parametrize("hours", [(1, 3), (3, 1)])
def test_of_two_last_commits_of_a_group_the_later_one_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: Sequence[float]
) -> None:
    write_hours(tmp_path)
    know_commits(monkeypatch, spark, *(("again", hour(each), None) for each in hours))
    judge(tmp_path, "--min-idle-seconds", str(2 * HOUR), spark=spark)
    assert [row["verdict"] for row in verdicts(tmp_path, 3)] == ["moving"]


IDLE = ("--min-idle-seconds", str(2 * HOUR))


@pytest.fixture
def strict(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Return a judgement that knows of a commit which no snapshot shows; the group is stale all the same."""
    write_hours(tmp_path)
    know_commits(monkeypatch, spark, ("again", hour(1), None), until=hour(4))
    return lambda: judge(tmp_path, *IDLE, spark=spark)


@pytest.mark.safety
def test_a_job_that_judges_between_the_verdicts_and_the_summary_of_another_is_noticed(
    tmp_path: Path, strict: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its verdicts are as many, and know of no commit: the group looks idle for 3 hours, with evidence for 2."""
    judged, layout = snapshot_id(3), Layout(tmp_path, CLUSTER)
    strict()
    assert [each.idle_seconds for each in load_verdicts(layout, judged)] == [2 * HOUR]
    in_tasks = InTasks.judge

    def judge_meanwhile(*arguments: Any) -> Any:
        found = in_tasks(*arguments)
        judge(tmp_path, *IDLE)
        return found

    monkeypatch.setattr(InTasks, "judge", judge_meanwhile)
    strict()
    with pytest.raises(SnapshotError, match=r"two jobs judged at once\. Run one again"):
        load_verdicts(layout, judged)
    monkeypatch.setattr(InTasks, "judge", in_tasks)
    strict()
    assert [each.idle_seconds for each in load_verdicts(layout, judged)] == [2 * HOUR]


@pytest.mark.safety
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
