"""The judgement in Spark's tasks: it comes to what one process comes to, its driver reads no row and may be killed."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError, SnapshotError, StorageError
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.spark import judging
from airflow_kafka_groups.spark.jobs import judge_staleness
from airflow_kafka_groups.spark.session import remedy_of
from airflow_kafka_groups.storage.file_storage import Storage
from tests.component.test_imports import NO_PANDAS
from tests.exhaustive.judge.staleness.test_reference import random_history
from tests.histories.judged import hour_rows, judge, verdict_folder, verdict_summary, write_hour
from tests.histories.lake import CLUSTER, file_of, write_data, write_manifest
from tests.histories.reference import Observation, rows_of
from tests.histories.shorthand import HOUR, SnapshotRow, snapshot_id
from tests.spark.rows import storage_elsewhere
from tests.unit.judge.staleness.test_observation_store import HOURS, cut_off, flip_a_byte, manifest_of, of_another
from tests.unit.judge.staleness.test_observation_store import file_of as observations_of

pytestmark = pytest.mark.spark

ID, PART = snapshot_id(1), "part-00000.parquet"


def write_files(base: Path, number: float, rows: list[SnapshotRow], files: int, **changes: Any) -> None:
    """Write a snapshot in several files; no group is in two of them."""
    rows = sorted(rows, key=lambda row: str(row["group_id"]))
    groups = sorted({row["group_id"] for row in rows})
    names, entries = [f"part-{part:05}.parquet" for part in range(files)], []
    for part, name in enumerate(names):
        own = [row for row in rows if groups.index(row["group_id"]) * files // len(groups) == part]
        write_data(base, snapshot_id(number), own, part=name)
        entries.append(file_of(base, snapshot_id(number), len(own), name))
    write_manifest(base, snapshot_id(number), len(rows), files=entries, **changes)


def judged(base: Path, number: float = 2) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the verdicts and the summary, without what differs from run to run."""
    rows = pq.read_table(verdict_folder(base, number)).sort_by("group_id").to_pylist()
    summary = json.loads(verdict_summary(base, number).read_text())
    return rows, {name: value for name, value in summary.items() if name not in ("output", "files", "seconds")}


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by buckets of two groups."""
    monkeypatch.setattr(judging, "_MOST_GROUPS_OF_A_BUCKET", 2)


@pytest.mark.safety
@pytest.mark.parametrize("seed", range(2))
def test_random_histories_come_to_what_they_come_to_in_one_process(
    spark: SparkSession, tmp_path: Path, buckets: None, seed: int
) -> None:
    """By buckets of which many have no row of a snapshot, and by snapshots of several files."""
    random, found, times = Random(f"in tasks {seed}"), [], dict[float, list[SnapshotRow]]()
    for number in range(30):
        for seen in random_history(random, random.choice([0.1, 0.3])):
            times.setdefault(hour_of(seen), []).extend(rows_of(f"group {number} \u00e9", seen))
    for name in ("here", "tasks"):
        for at, rows in times.items():
            if rows:
                write_files(tmp_path / name, at, rows, random.choice([1, 2, 3]), complete=at == int(at))
        for more in ((), ("--snapshot-id", snapshot_id(4))):  # the second one from observations
            judge(tmp_path / name, *more, spark=spark if name == "tasks" else None)
            found.append(judged(tmp_path / name, 4 if more else 7))
    assert found[:2] == found[2:]
    assert len({row["verdict"] for row in found[0][0]}) > 4


def hour_of(seen: Observation) -> float:
    """Return the hour of the snapshot that shows it."""
    return seen.place if seen.complete else seen.place - 0.5


def test_the_driver_reads_manifests_and_nothing_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in HOURS:
        write_hour(tmp_path, number)
    asked, read = list[str](), Storage.read

    def counted(storage: Storage, path: Any, *part: Any) -> bytes | None:
        asked.append(str(path))
        return read(storage, path, *part)

    def collected(rows: DataFrame) -> Any:
        assert rows.columns == ["made"], "what describes a file"
        return collect(rows)

    collect = DataFrame.collect
    monkeypatch.setattr(Storage, "read", counted)
    monkeypatch.setattr(DataFrame, "collect", collected)
    for _ in range(2):
        judge(tmp_path, spark=spark)
    rows = [path for path in asked if not path.endswith(".json")]
    assert all("/tables/verdicts/" in path for path in rows), "and footers of what was written, to count the rows"
    assert len(rows) == 2


def test_tasks_import_no_pandas(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half a second of each Python, which is a third of what an hourly judgement takes there."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(NO_PANDAS)
    environment = spark.sparkContext.environment
    there = os.pathsep.join(filter(None, (str(tmp_path / "first"), environment.get("PYTHONPATH"))))
    monkeypatch.setitem(environment, "PYTHONPATH", there)
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path, spark=spark)


@pytest.mark.parametrize("spoil", ["bytes", "rows", "digest", "twice"])
def test_a_file_that_cannot_be_used_is_named_as_in_one_process(spark: SparkSession, tmp_path: Path, spoil: str) -> None:
    write_hour(tmp_path, 0)
    if spoil == "rows":
        problem = of_another(tmp_path, 1)
    elif spoil == "twice":
        problem, names = "group 'moving' is in two of its files", (PART, "part-00001.parquet")
        for name, rows in zip(names, (hour_rows(1), hour_rows(1)[1:]), strict=True):
            write_data(tmp_path, ID, rows, part=name)
        files = [file_of(tmp_path, ID, rows, name) for name, rows in zip(names, (2, 1), strict=True)]
        write_manifest(tmp_path, ID, 3, files=files)
    else:
        part = write_data(tmp_path, ID, hour_rows(1))
        write_manifest(tmp_path, ID, 2)
        problem = "it has other bytes than its manifest describes"
        if spoil == "bytes":
            cut_off(part)
        else:
            write_manifest(tmp_path, ID, 2, files=[file_of(tmp_path, ID, 2) | {"sha256": "0" * 64}])
    for session in (spark, None):
        with pytest.raises(SnapshotError, match=f"{ID} is incomplete.*{problem}"):
            judge(tmp_path, spark=session)
    assert not verdict_summary(tmp_path, 1).exists()


def test_what_fails_a_task_is_said(spark: SparkSession, tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    spark.conf.set("spark.sql.sources.binaryFile.maxLength", 1000)
    try:
        with pytest.raises(JobError, match=r"cannot be judged: .*part-00000\.parquet"):
            judge(tmp_path, spark=spark)
    finally:
        spark.conf.unset("spark.sql.sources.binaryFile.maxLength")


@pytest.mark.parametrize("doubt", ["damaged", "lost", "damaged and without manifest"])
def test_observations_that_are_not_as_they_were_written_are_made_again(
    spark: SparkSession, tmp_path: Path, doubt: str
) -> None:
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path, spark=spark)
    rows, _ = judged(tmp_path)
    file = observations_of(tmp_path, 1)
    healthy = file.read_bytes()
    if doubt == "lost":
        file.unlink()
    else:
        flip_a_byte(file)
    if doubt == "damaged and without manifest":
        manifest_of(tmp_path, 1).unlink()
    if doubt == "damaged":
        with pytest.raises(StorageError, match="are not as they were written: run the job again"):
            judge(tmp_path, spark=spark)
    assert judge(tmp_path, spark=spark)["snapshots_reduced"] == 1
    assert (judged(tmp_path)[0], file.read_bytes()) == (rows, healthy)


class KilledError(BaseException):
    """What ends a job in these tests, as a signal does."""


class Killing:
    """What ends a job instead of the next step after some."""

    def __init__(self, steps: int) -> None:
        self.left, self.has_killed = steps, False

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            if self.left == 0:
                self.has_killed = True
                raise KilledError
            self.left -= 1
            return work(*given, **named)

        return step


STEPS: tuple[tuple[Any, str], ...] = (
    *((Storage, name) for name in ("create", "replace", "remove", "remove_folder")),
    *((judging, name) for name in ("move", "_write_contents", "_write_verdicts")),
    (judging.InTasks, "_made"),
    (ObservationStore, "publish"),
)
"""Each change that the driver makes to the storage, and what Spark's two jobs do."""


@pytest.mark.safety
@pytest.mark.timeout(300)
@pytest.mark.parametrize("where", ["on a disk", "elsewhere"])
def test_a_job_that_is_killed_at_any_step_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    uri = tmp_path.as_uri() if where == "on a disk" else storage_elsewhere(spark, tmp_path)

    def judge_here(base: Path) -> None:
        asked = ["--base", f"{uri}/{base.name}", "--cluster", CLUSTER, "--min-idle-seconds", str(HOUR)]
        judge_staleness.run(spark, judge_staleness.parse_arguments(asked))

    rows, kills = list[Any](), list[bool]()
    for steps in count(-1):
        base, killing = tmp_path / f"after-{steps}", Killing(steps)
        for number in HOURS:
            write_hour(base, number)
        with monkeypatch.context() as patched, suppress(KilledError):
            for owner, name in STEPS:
                patched.setattr(owner, name, killing.before(getattr(owner, name)))
            judge_here(base)
        summary = verdict_summary(base, 2)
        if summary.exists() and json.loads(summary.read_text())["groups"] is not None:
            assert judged(base)[0] == (rows or judged(base)[0]), "it vouches for what is there"
        judge_here(base)
        rows = rows or judged(base)[0]
        assert judged(base)[0] == rows
        observed = pq.read_table(base / CLUSTER / "tables" / "observations", partitioning=None)
        assert observed.num_rows == 7, "each observation once"
        kills.append(killing.has_killed)
        if steps >= 0 and not killing.has_killed:
            break
    assert sum(kills) >= 10


def test_settings_are_put_back(spark: SparkSession, tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    names = (*judging._SETTINGS, *judging._LISTED_AT_ONCE)
    before = [spark.conf.get(name, None) for name in names]
    judge(tmp_path, spark=spark)
    assert [spark.conf.get(name, None) for name in names] == before


@pytest.mark.parametrize(
    ("said", "setting"),
    [
        (
            "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize 1024.0 MiB",
            "maxResultSize",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.executor.memory"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "spark.executor.memoryOverhead"),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 64 failed", "spark.executor.memoryOverhead"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "spark.executor.memory"),
    ],
)
def test_what_runs_out_is_named_with_the_setting_that_helps(said: str, setting: str) -> None:
    assert setting in remedy_of(PySparkException(said))
    assert remedy_of(PySparkException("Something else")) == ""


def test_the_last_line_names_it(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hour(tmp_path, 0)

    def run_out(*_: Any) -> None:
        raise PySparkException("java.lang.OutOfMemoryError: Java heap space")

    monkeypatch.setattr(judging.InTasks, "_files", run_out)
    with pytest.raises(JobError, match=r"Java heap space\. Give the executors more by spark\.executor\.memory"):
        judge(tmp_path, spark=spark)


@pytest.mark.parametrize("buckets", [1, 2, 7, 20])
def test_each_bucket_is_a_task_of_its_own(spark: SparkSession, buckets: int) -> None:
    labels = judging.InTasks(spark)._labels(buckets)
    rows = spark.createDataFrame([(label,) for label in labels], "bucket int").repartition(buckets, "bucket")
    assert [len(part) for part in rows.rdd.glom().collect()] == [1] * buckets
