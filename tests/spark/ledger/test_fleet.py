"""Many clusters in one run: each is judged as if it were alone, and one that fails is named and holds no other up."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.jobs import archive_backlog, lag_report
from airflow_kafka_groups.spark.jobs.judge_staleness import main, parse_arguments, run
from airflow_kafka_groups.spark.program import PARTLY_FAILED
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, seen, snapshot_id

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def write_cluster(base: Path, name: str, *groups: str, **manifest: Any) -> None:
    """Write two snapshots of a cluster, in which the groups stand still."""
    for number in (0, 1):
        rows = [row | {"cluster": name} for group in groups for row in seen(number, group=group)]
        write_snapshot(base / "made", number, rows, **({"cluster": name} | manifest))
    shutil.move(base / "made" / CLUSTER, base / name)
    shutil.rmtree(base / "made")


def given(base: Path, *clusters: str) -> list[str]:
    named = [word for cluster in clusters for word in ("--cluster", cluster)]
    return ["--base", base.as_uri(), *named, "--min-idle-seconds", str(HOUR)]


@pytest.mark.safety
def test_a_cluster_that_fails_is_named_and_the_others_are_judged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session belongs to all tests
    write_cluster(tmp_path, "a", "x")
    write_cluster(tmp_path, "b", "x", complete=False)
    write_cluster(tmp_path, "d", "x", "y")
    (tmp_path / "_journal").mkdir()
    (tmp_path / "notes").mkdir()
    assert main(given(tmp_path, "*")) == PARTLY_FAILED
    said = capsys.readouterr()
    summary = json.loads(said.out.splitlines()[-1])
    assert {name: each["verdicts"]["stale"] for name, each in summary["clusters"].items()} == {"a": 1, "d": 2}
    assert list(summary["failed"]) == ["b"]
    assert "is not complete" in summary["failed"]["b"]
    assert (summary["groups"], summary["verdicts"]["stale"], summary["lag"]) == (3, 3, 270)
    assert said.err.splitlines()[-1] == "judge_staleness: error: failed for b: see above"
    for name, groups in (("a", 1), ("d", 2)):
        folder = tmp_path / name / "tables" / "verdicts" / f"snapshot_id={snapshot_id(1)}"
        assert pq.read_table(folder).num_rows == groups
        own = json.loads((tmp_path / name / "summaries" / "verdicts" / f"{snapshot_id(1)}.json").read_text())
        assert (own["cluster"], own["groups"]) == (name, groups)
    assert not (tmp_path / "b" / "summaries" / "verdicts").exists()


def test_named_clusters_go_into_one_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    for name in ("a", "b", "d"):
        write_cluster(tmp_path, name, "x")
    arguments = [*given(tmp_path, "d", "a", "a"), "--table", "akg.verdicts"]
    found = [run(spark, parse_arguments(arguments)) for _ in range(2)]
    assert [(list(each["clusters"]), each["failed"]) for each in found] == [(["d", "a"], {})] * 2
    rows = spark.table("akg.verdicts").collect()
    assert sorted((row["cluster"], row["group_id"]) for row in rows) == [("a", "x"), ("d", "x")]


@pytest.mark.parametrize("name", ["*", "..", "../prod", "prod/", "prod\u0308", ""])
@pytest.mark.parametrize(
    ("parse", "more"),
    [
        (archive_backlog.parse_arguments, ["--group", "g", "--kafka-properties", "kafka.properties"]),
        (lag_report.parse_arguments, []),
    ],
    ids=["archive_backlog", "lag_report"],
)
def test_what_is_no_name_of_a_cluster_is_a_wrong_argument_of_jobs_for_one(
    parse: Callable[[list[str]], Any], more: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(["--base", "/base", "--cluster", name, *more])
    assert raised.value.code == 2
    assert "--cluster" in (said := capsys.readouterr().err.splitlines()[-1])
    assert "use 1 to 100 letters, digits" in said
