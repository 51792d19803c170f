"""Sessions with settings of the user's own: the job writes the same under each of them."""

from __future__ import annotations

import sys
import zoneinfo
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.application import main
from airflow_kafka_groups.spark.jobs import roll_up
from airflow_kafka_groups.spark.kafka.properties import HIDDEN_OPTIONS, options_hidden
from airflow_kafka_groups.spark.session.settings import settings_of
from tests.histories.judged import judge, verdicts
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, SnapshotRow, hour, seen

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
def test_options_stay_hidden_until_the_last_of_several_threads_has_ended(spark: SparkSession) -> None:
    """The first one that ends would show the options of the others, and the last one would leave its own setting."""
    name = "spark.sql.redaction.options.regex"
    with settings_of(spark, {name: "mine"}):
        first, second = options_hidden(spark), options_hidden(spark)
        first.__enter__()
        second.__enter__()
        hidden = spark.conf.get(name)
        first.__exit__(None, None, None)
        assert spark.conf.get(name) == hidden == f"(?:mine)|(?:{HIDDEN_OPTIONS})"
        second.__exit__(None, None, None)
        assert spark.conf.get(name) == "mine"


def test_the_settings_of_the_session_stay_the_users_after_two_jobs_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one begins before the second, and ends before it: what the second one found were the first one's."""
    write_snapshot(tmp_path, 0, seen(0))
    given = ["roll_up", "--base", tmp_path.as_uri(), "--output", f"{tmp_path.as_uri()}/out"]
    zones: list[Any] = []
    started, ended = Event(), Event()

    def days(*_: Any) -> dict[str, Any]:
        if current_thread() is second:
            started.set()
            ended.wait(60)
        else:
            second.start()
            started.wait(60)
        zones.append(spark.conf.get("spark.sql.session.timeZone"))
        return {}

    second = Thread(target=main, args=(given,))
    monkeypatch.setattr(roll_up, "_days", days)
    with settings_of(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        assert main(given) == 0
        ended.set()
        second.join()
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    assert zones == ["UTC", "UTC"]


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
