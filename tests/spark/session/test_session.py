"""Sessions with settings of the user's own: the job writes the same under each of them."""

import re
import subprocess
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread, current_thread
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark import hadoop_storage
from airflow_kafka_groups.spark.application import JOBS, main
from airflow_kafka_groups.spark.hadoop_storage import Hadoop, storage_of
from airflow_kafka_groups.spark.jobs import roll_up
from airflow_kafka_groups.spark.session import HIDDEN_OPTIONS, SPARK_ERRORS, options_hidden, remedy_of, settings_of
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage
from tests.histories.judged import judge, verdicts
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, SnapshotRow, hour, seen
from tests.lab.spark.standalone import bare_python

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NAMES = (
    *("it's", 'a"b', "`t`", "back\\slash", "\\'", "100%", "%s", "_", "{}", "{0}", "${spark.master}", "$x", ":newest"),
    *("", " lead", "trail ", "G", "g", "line\nbreak", "--c", "/*", "null", "1", "Zoë-日本🙂", "Zoe\u0308", "n" * 249),
)
METADATA = 'it\'s "${spark.master}" {} %s \\'


def rows_of(number: float) -> list[SnapshotRow]:
    """Return groups with all kinds of names, and groups with all verdicts and flags."""
    at = hour(number) + timedelta(microseconds=123_456)
    topic = "t" * 249
    rows = [seen(number, at=at, group=name, offsets={(topic, 0): (10, None, METADATA)}) for name in NAMES]
    rows += [
        seen(number, at=at, group="live", state="Stable", members=1),
        seen(number, at=at, group="moving", offsets={("t", 0): 50 + int(2 * number), ("t", 1): (5, 3, None)}),
        seen(number, at=at, group="torn", log_end=None, error=METADATA),
        seen(number, at=at, group="share", group_type="share", protocol_type="share", offsets={}),
        seen(number, at=at, group="other", protocol_type="sr"),
        seen(number, at=at, group="Empty", offsets={}),
        seen(number, at=at, group="unknown", log_end=None),
        seen(number, at=at, group="losing", ends={("t", 0): (int(number), 100 + int(10 * number))}),
        seen(number, at=at, group="huge", offsets={("t", p): 2**62 for p in range(3)}, log_end=2**63 - 1),
        seen(number, at=at, group="late") if number >= 2 else [],
    ]
    return [row for of_group in rows for row in of_group]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for number in range(4):
        write_snapshot(tmp_path, number, rows_of(number))
    glimpsed = [row for name in ("g", "it's") for row in seen(1.5, group=name, state="Stable", members=2)]
    write_snapshot(tmp_path, 1.5, glimpsed, complete=False)
    return tmp_path


def made(spark: SparkSession, base: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Judge without any stored observation; return verdicts, observations and the summary."""
    folder = base / CLUSTER
    for name in ("tables", "summaries"):
        if (folder / name).exists():
            (folder / name).rename(base / f"_{name}_{len(list(base.iterdir()))}")
    summary = judge(base, "--min-idle-seconds", str(2 * HOUR), "--offsets-retention-minutes", "10080", spark=spark)
    summary.pop("seconds")
    summary.pop("files")
    files = sorted((folder / "tables" / "observations").rglob("*.parquet"))
    observed = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    judged = [{name: _utc(value) for name, value in row.items()} for row in verdicts(base, 3)]
    return judged, sorted(observed, key=lambda row: (row["run_id"], row["group_id"])), summary


def _utc(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


# Several in each set: a set costs two judgements.
SETTINGS: tuple[dict[str, str], ...] = (
    {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    },
    {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.variable.substitute": "false",
    },
    {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.files.maxRecordsPerFile": "5",
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.sources.default": "json",
        "spark.sql.storeAssignmentPolicy": "STRICT",
    },
    {
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",  # as in other sessions than that of the tests
    },
    # A default catalogue that cannot be reached, and has no database.
    {
        "spark.sql.catalog.elsewhere": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.elsewhere.url": "jdbc:nowhere",
        "spark.sql.catalog.elsewhere.driver": "java.lang.Object",
        "spark.sql.defaultCatalog": "elsewhere",
    },
)


@pytest.mark.safety
def test_verdicts_do_not_depend_on_the_settings_of_the_session(spark: SparkSession, base: Path) -> None:
    judged, observed, summary = made(spark, base)
    assert {row["group_id"] for row in judged} >= {*NAMES}
    assert {row["verdict"] for row in judged} >= {"stale", "live", "moving", "unreadable", "untouchable", "no_offsets"}
    assert summary["oldest_observation"] == "2026-01-01T00:00:00.123456Z"
    for settings in SETTINGS:
        with settings_of(spark, {"spark.sql.session.timeZone": None, **settings}):
            again = made(spark, base)
        assert again[0] == judged, settings
        assert again[1] == observed, settings
        assert again[2] == summary, settings


@pytest.mark.safety
def test_options_are_hidden_besides_what_the_user_hides(spark: SparkSession) -> None:
    name = "spark.sql.redaction.options.regex"
    with settings_of(spark, {name: "mine"}):
        with options_hidden(spark):
            assert spark.conf.get(name) == f"(?:mine)|(?:{HIDDEN_OPTIONS})"
        assert spark.conf.get(name) == "mine"


def test_the_settings_of_the_session_stay_the_users_after_two_jobs_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits: what it would find as the user's settings are the first one's."""
    write_snapshot(tmp_path, 0, seen(0))
    given = ["roll_up", "--base", tmp_path.as_uri(), "--output", f"{tmp_path.as_uri()}/out"]
    zones: list[Any] = []

    def days(*_: Any) -> dict[str, Any]:
        if current_thread() is not second:
            second.start()
            second.join(0.5)
        zones.append((current_thread() is second, spark.conf.get("spark.sql.session.timeZone")))
        return {}

    second = Thread(target=main, args=(given,))
    monkeypatch.setattr(roll_up, "_last_of_days", days)
    with settings_of(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        # What holds the settings in this thread holds the second job up, too.
        assert main(given) == 0
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    second.join()
    assert zones == [(False, "UTC"), (True, "UTC")]


def test_a_driver_whose_image_has_no_time_zones_judges_as_any_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All times are in UTC. To make Python's of them, pyarrow asks for a package with the zones of the world."""
    write_snapshot(tmp_path, 0, seen(0))
    for package in ("pytz", "tzdata"):
        monkeypatch.setitem(sys.modules, package, None)
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    try:
        summary = judge(tmp_path, spark=spark)
    finally:
        zoneinfo.reset_tzpath()
    assert summary["oldest_observation"] == summary["newest_observation"] == f"{hour(0):%Y-%m-%dT%H:%M:%S.%fZ}"


@pytest.fixture
def workers(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the workers, and put its workers' Python back afterwards."""
    before = spark.sparkContext.pythonExec
    yield spark
    spark.sparkContext.pythonExec = before


def test_a_python_of_the_executors_that_cannot_do_the_work_is_told_the_remedy(
    workers: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> str:
        with pytest.raises(SPARK_ERRORS) as failed:
            workers.range(1).mapInArrow(lambda batches: batches, "id long").collect()
        return first_line(failed.value) + remedy_of(failed.value)

    remedy = "Give Python on the executors what it lacks, in the driver's version"
    for python, said in ((bare_python(tmp_path / "empty", ()), "pyarrow|PyArrow"), ("/no/python3", "/no/python3")):
        workers.sparkContext.pythonExec = str(python)
        assert re.search(f"({said}).*{remedy}", fails(), re.DOTALL)
    workers.sparkContext.pythonExec = sys.executable
    monkeypatch.setattr(workers.sparkContext, "pythonVer", "3.9")  # what the driver tells the workers of itself
    assert re.search(f"PYTHON_VERSION_MISMATCH.*{remedy}", fails(), re.DOTALL)


def test_a_driver_without_numpy_and_pyarrow_starts_every_job() -> None:
    program = "import sys\nfor name in ('numpy', 'pandas', 'pyarrow'):\n    sys.modules[name] = None\n"
    program += "".join(f"import airflow_kafka_groups.spark.jobs.{job}\n" for job in JOBS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.safety
def test_a_relative_path_is_that_of_the_jvm_wherever_a_notebook_has_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_in, name = Path.cwd(), f"relative-{uuid4().hex}"
    monkeypatch.chdir(tmp_path)
    storage = storage_of(spark, name)
    assert isinstance(storage, LocalStorage)
    assert storage.local(f"{name}/file") == began_in / name / "file"
    try:
        storage.replace(f"{name}/file", b"x")
        assert [row.value for row in spark.read.text(name).collect()] == ["x"]
        assert (storage.files(name), storage.exists(f"{name}/file")) == (["file"], True)
        storage.create(f"{name}/other", b"x")
    finally:
        storage.remove_folder(name, everything=True)
    assert not (began_in / name).exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.safety
def test_a_checksum_of_what_was_there_before_is_of_nothing_that_is_moved_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    storage = storage_of(spark, str(tmp_path))
    there = Hadoop(spark, str(tmp_path))
    Storage(there, there.path).replace(f"{tmp_path}/x", b"before\n")
    (tmp_path / "x").unlink()
    storage.create(f"{tmp_path}/x", b"after\n")
    assert storage.read_text(f"{tmp_path}/x") == "after\n"
    assert [row.value for row in spark.read.text(f"{tmp_path}/x").collect()] == ["after"]


@pytest.mark.safety
def test_a_local_disk_is_looked_at_by_python_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A JVM in the locale C, as in many containers, finds no file whose path is not ASCII.

    Its "not there" left the summary of a run before in place, and its verdicts beside the new ones.
    """
    base = f"{tmp_path}/ä"
    storage = storage_of(spark, base)
    assert storage.is_local
    storage.replace(f"{base}/a/x", b"x\n")
    assert (storage.exists(base), storage.exists(f"{base}/y"), storage.exists(f"{base}/a/x/y")) == (True, False, False)
    written_at = (tmp_path / "ä" / "a" / "x").stat().st_mtime
    assert storage.describe(f"{base}/a/x").written_at.timestamp() == pytest.approx(written_at, abs=0.001)
    storage.create(f"{base}/y", b"y\n")
    assert storage.read(f"{base}/z") is None
    (tmp_path / "ä" / ".y.crc").write_bytes(b"of y")
    storage.remove(f"{base}/y")
    storage.remove(f"{base}/y")
    assert [path.name for path in (tmp_path / "ä").iterdir()] == ["a"]
    with pytest.raises(StorageError, match="/a could not be removed: "):
        storage.remove(f"{base}/a")
    (tmp_path / "link").symlink_to(tmp_path / "ä" / "a")
    storage.remove_folder(f"{tmp_path}/link", everything=True)
    assert storage.read_text(f"{base}/a/x") == "x\n"
    storage.remove_folder(base, everything=True)
    storage.remove_folder(base, everything=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.safety
@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file:///{}", "FILE:{}", "{}/"])
def test_every_form_of_a_path_leads_to_one_file(spark: SparkSession, tmp_path: Path, form: str) -> None:
    for name in ("a b", "a%20b", "a#b", "a+b", "ä", "a:b", "_a", ".a"):
        folder = form.format(tmp_path / name)
        storage = storage_of(spark, folder)
        storage.replace(f"{folder}/x", b"x\n")
        assert (tmp_path / name / "x").read_text() == "x\n"
        assert storage.exists(f"{folder}/x")
        assert storage.files(folder) == ["x"]
        assert name in storage.folders(form.format(tmp_path))
        beside = hadoop_storage.beside(folder, "y")
        storage_of(spark, beside).replace(beside, b"y\n")
        assert (tmp_path / "y").read_text() == "y\n"


@pytest.mark.safety
def test_a_path_that_is_none_to_hadoop_is_none_without_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """What is between two slashes and the next one is a machine's name to it."""
    with pytest.raises(StorageError):
        storage_of(spark, f"/{tmp_path}")
    for path in (f"/{tmp_path}/x", f"file:/{tmp_path}/x"):
        with pytest.raises(StorageError, match="it is on a machine"):
            LocalStorage().replace(path, b"x")
