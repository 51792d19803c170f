"""The job in the tests' own session: what it writes, what it says, and what it refuses."""

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import airflow_kafka_groups.spark.jobs as jobs
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.exceptions import SnapshotError as MaintenanceSnapshotError
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.spark.frames import VERDICT_SCHEMA
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments
from airflow_kafka_groups.spark.session import version_warnings
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.commits import know_commits
from tests.histories.judged import judge, verdict_folder, verdict_summary, verdicts
from tests.histories.lake import CLUSTER, flip_a_bit, write_data, write_snapshot
from tests.histories.shorthand import HOUR, hour, seen, snapshot_id

pytestmark = pytest.mark.spark

GOOD = ["--base", "/b", "--cluster", "c", "--min-idle-seconds", "60"]


@pytest.fixture(params=["in this process", "in tasks"])
def session(request: pytest.FixtureRequest) -> SparkSession | None:
    """Return the session in whose tasks the job runs, if any: its output is the same."""
    spark: SparkSession | None = request.getfixturevalue("spark") if request.param == "in tasks" else None
    return spark


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("judged")
    two_hours(base)
    assert judge(base)["verdicts"]["stale"] == 1
    return base


@pytest.fixture
def judged(first_run: Path, tmp_path: Path) -> Path:
    """Return a base with two snapshots, of which the second is judged."""
    return Path(shutil.copytree(first_run, tmp_path / "judged"))


@pytest.mark.parametrize("column", ["group_id", "verdict", "idle_seconds"])
def test_a_flipped_bit_in_the_verdicts_is_not_planned_by(judged: Path, column: str) -> None:
    layout = Layout(judged, CLUSTER)
    assert len(load_verdicts(layout, snapshot_id(1))) == 5
    (written,) = verdict_folder(judged, 1).glob("*.parquet")
    flip_a_bit(written, column)
    with pytest.raises(MaintenanceSnapshotError, match="cannot be read"):
        load_verdicts(layout, snapshot_id(1))


def two_hours(base: Path) -> None:
    """Of five groups: one stale, one live, one moving, one that cannot be read, one of a share."""
    for number in (0, 1):
        write_snapshot(
            base,
            number,
            [
                *seen(number, group="stale"),
                *seen(number, group="live", state="Stable", members=1, offsets={("t", 0): 40, ("t", 1): 90}),
                *seen(number, group="moving", offsets={("t", 0): 50 + number}),
                *seen(number, group="torn", log_end=None, error="TOPIC_AUTHORIZATION_FAILED"),
                *seen(number, group="share", group_type="share", protocol_type="share", offsets={}),
            ],
        )


def test_the_job_writes_one_verdict_for_each_group_and_a_summary(session: SparkSession | None, tmp_path: Path) -> None:
    two_hours(tmp_path)
    write_snapshot(tmp_path, 0.5, seen(0.5), complete=False)
    summary = judge(tmp_path, spark=session)
    table = pq.read_table(verdict_folder(tmp_path, 1))
    assert table.column_names == VERDICT_SCHEMA.names
    assert dict(zip(*table.select(["group_id", "verdict"]).to_pydict().values(), strict=True)) == {
        "live": "live",
        "moving": "moving",
        "share": "no_offsets",
        "stale": "stale",
        "torn": "unreadable",
    }
    (file,) = verdict_folder(tmp_path, 1).glob("*.parquet")
    assert summary.pop("files") == [file.name]
    assert summary.pop("seconds") >= 0
    assert summary.pop("warnings") == []
    none = dict.fromkeys(("unreadable", "untouchable", "live", "no_offsets", "moving", "settling", "stale"), 0)
    assert summary == {
        "job": "judge_staleness",
        "cluster": CLUSTER,
        "snapshot_id": snapshot_id(1),
        "kafka_cluster_id": "kafka-1",
        "groups": 5,
        "named_groups": False,
        "verdicts": none | dict.fromkeys(("unreadable", "live", "no_offsets", "moving", "stale"), 1),
        "lag": 90 + 70 + 49,
        "lag_by_verdict": none | {"live": 70, "moving": 49, "stale": 90},
        "oldest_observation": "2026-01-01T00:00:00.000000Z",
        "newest_observation": "2026-01-01T01:00:00.000000Z",
        "commit_log": {"mode": "off"},
        "evidence": {"commits_since": None, "commits_until": None, "not_read": "it was not asked for"},
        "snapshots_used": 2,
        "snapshots_reduced": 3,
        "first_snapshot": snapshot_id(0),
        "snapshots_skipped": 1,
        "skipped": [
            {
                "name": snapshot_id(0.5),
                "why": "is not complete (missing from the listing: not named): only signs of life in it count",
            }
        ],
        "offsets_retention_minutes": 0,
        "policy": {"min_idle_seconds": HOUR, "min_observations": 2, "max_gap_seconds": 0.0},
        "output": f"{tmp_path.as_uri()}/{CLUSTER}/tables/verdicts/snapshot_id={snapshot_id(1)}",
        "tables": [],
    }
    written = json.loads(verdict_summary(tmp_path, 1).read_text())
    assert {name: written[name] for name in summary} == summary


def test_a_second_run_replaces_the_first(session: SparkSession | None, judged: Path) -> None:
    assert json.loads(verdict_summary(judged, 1).read_text())["verdicts"]["stale"] == 1
    assert judge(judged, "--min-observations", "3", spark=session)["verdicts"]["stale"] == 0
    assert pq.read_table(verdict_folder(judged, 1)).num_rows == 5
    assert json.loads(verdict_summary(judged, 1).read_text())["verdicts"]["stale"] == 0


def test_verdicts_are_a_table_with_a_partition_for_each_snapshot(spark: SparkSession, judged: Path) -> None:
    judge(judged, "--snapshot-id", snapshot_id(0))
    table = spark.read.parquet(f"{judged.as_uri()}/{CLUSTER}/tables/verdicts")
    found = {row["snapshot_id"]: row["count"] for row in table.groupBy("snapshot_id").count().collect()}
    assert found == {snapshot_id(0): 5, snapshot_id(1): 5}


def test_a_job_that_fails_leaves_no_verdicts_of_this_snapshot(session: SparkSession | None, tmp_path: Path) -> None:
    two_hours(tmp_path)
    write_data(tmp_path, snapshot_id(0), seen(0))
    with pytest.raises(SnapshotError, match=f"{snapshot_id(0)} is incomplete"):
        judge(tmp_path, spark=session)
    assert not verdict_folder(tmp_path, 1).exists()


def test_a_cluster_without_groups_has_no_verdicts(session: SparkSession | None, tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    write_snapshot(tmp_path, 1, [], files=[])
    summary = judge(tmp_path, spark=session)
    assert (summary["groups"], summary["lag"], set(summary["verdicts"].values())) == (0, 0, {0})
    assert pq.read_table(verdict_folder(tmp_path, 1)).num_rows == 0


def test_the_last_commit_makes_a_group_younger_and_never_older(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        rows = [row for group in ("again", "early", "none") for row in seen(number, group=group)]
        write_snapshot(tmp_path, number, rows)
    last = [("again", hour(2.5), None), ("early", hour(-1000), None), ("unknown", hour(3), None)]
    know_commits(monkeypatch, spark, *last)
    judge(tmp_path, "--min-idle-seconds", str(3 * HOUR), spark=spark)
    found = {row["group_id"]: (row["verdict"], row["idle_seconds"]) for row in verdicts(tmp_path, 3)}
    assert found == {"again": ("moving", HOUR / 2), "early": ("stale", 3 * HOUR), "none": ("stale", 3 * HOUR)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--min-idle-seconds", "soon"], "argument --min-idle/--min-idle-seconds: 'soon' is no duration"),
        *((["--min-idle-seconds", idle], "--min-idle") for idle in ("nan", "inf")),
        (["--min-idle-seconds", "0"], "--min-idle (got 0.0): give the idle time"),
        (["--min-observations", "1.5"], "argument --min-observations: invalid int value: '1.5'"),
        (["--min-observations", "1"], "--min-observations (got 1): give 2 or more"),
        (["--max-snapshots", "0"], "--max-snapshots (got 0): give 1 or more"),
        (["--max-days", "nan"], "--max-days (got nan): give 0"),
        (["--max-gap-seconds", "-1"], "--max-gap (got -1.0): give 0"),
        (["--max-gap", "0.0000001"], "--max-gap (got 1e-07): give 0 (no limit) or a time"),
        (["--offsets-retention-minutes", "-1"], "(got -1): give what the brokers'"),
        (["--commit-log", "required"], "--commit-log (got 'required'): give --kafka-properties too"),
        (["--snapshot-id", "newest"], "--snapshot-id (got 'newest'): give an id as"),
        (["--cluster", "../prod"], "--cluster (got '../prod'): use 1 to 100 letters"),
        (["--base", "/a/*"], "--base (got '/a/*'): give a folder or URI"),
        (["--base", ""], "--base (got ''): give a folder or URI"),
        (["--bsae", "/a"], "unrecognized arguments: --bsae"),
    ],
)
def test_a_bad_argument_is_named_with_its_value_and_the_remedy(
    capsys: pytest.CaptureFixture[str], changed: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*GOOD, *changed])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_spark_that_was_not_tested_is_warned_of() -> None:
    assert version_warnings("4.2.0", "4.2.0") == version_warnings("4.0.0", "4.0.0") == []
    assert "tested with Spark 4.0 to 4.2 and runs on 4.9.0" in version_warnings("4.9.0", "4.9.0")[0]
    assert "pyspark 4.2.0 drives Spark 4.2.1" in version_warnings("4.2.0", "4.2.1")[0]


def test_no_job_shadows_the_standard_library() -> None:
    """spark-submit puts the folder of the job first on sys.path."""
    names = {path.stem for path in Path(jobs.__path__[0]).glob("*.py")} - {"__init__"}
    assert names
    assert not names & sys.stdlib_module_names
