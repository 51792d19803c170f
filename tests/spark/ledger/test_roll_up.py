"""The roll-up over clusters and days: the last judgement of each day, of any version, once."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.spark.jobs.roll_up import main, parse_arguments, run
from airflow_kafka_groups.spark.session import settings_of
from tests.pages import DOCS
from tests.spark.rows import watch_statements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0)


def judged(
    base: Path, cluster: str, days_ago: int, hour: int, *, stale: int, changes: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Write the summary of a judgement; manifests make a folder a cluster."""
    at = TODAY - timedelta(days=days_ago) + timedelta(hours=hour)
    snapshot_id = f"{at:%Y%m%dT%H%M%SZ}-0123abcd"
    counts = {name.value: 0 for name in VerdictName}
    summary = {
        "snapshot_id": snapshot_id,
        "cluster": cluster,
        "groups": stale,
        "verdicts": {**counts, "stale": stale},
        "lag_by_verdict": {**counts, "stale": 10 * stale},
        **changes,
    }
    folder = base / cluster / "summaries/verdicts"
    for each in (folder, base / cluster / "manifests"):
        each.mkdir(parents=True, exist_ok=True)
    (base / cluster / "manifests" / "of-another-snapshot.json").touch()
    (folder / f"{snapshot_id}.json").write_text(json.dumps(summary, indent=1))  # as the job writes it
    return snapshot_id


def day(days_ago: int) -> str:
    return f"{TODAY - timedelta(days=days_ago):%Y-%m-%d}"


def stale(rows: Any) -> list[tuple[Any, ...]]:
    names = ("cluster", "day", "snapshot_id", "groups", "lag")
    return sorted(tuple(str(row[name]) for name in names) for row in rows.where("verdict = 'stale'").collect())


def rolled_up(spark: SparkSession, folder: Path, *more: str) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """Roll up, and return the summary and the rows about stale groups."""
    given = ["--base", f"{folder}/base", "--output", f"{folder}/out", *more]
    return run(spark, parse_arguments(given)), stale(spark.read.parquet(f"{folder}/out"))


def test_the_last_judgement_of_each_day_counts_and_is_there_once(
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session belongs to all tests
    base = tmp_path / "base"
    judged(base, "a", 2, 1, stale=1)
    late = judged(base, "a", 2, 23, stale=2)
    first = judged(base, "a", 0, 0, stale=3)
    judged(base, "b", 1, 5, stale=5)
    older = judged(base, "b", 1, 6, stale=4)
    judged(base, "b", 30, 6, stale=9)
    judged(base, "torn", 0, 0, stale=1, changes={"verdicts": "none"})
    judged(base, "copied", 0, 0, stale=1, changes={"cluster": "other"})
    given = ["--base", base.as_uri(), "--output", f"{tmp_path.as_uri()}/out", "--table", "akg.days"]
    for _ in range(2):
        assert main(given) == 5
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["clusters"], said["rows"]) == ({"a": 2, "b": 1}, 3 * len(VerdictName))
    assert "is not the summary of judge_staleness" in said["failed"]["torn"]
    assert "is not the summary of judge_staleness" in said["failed"]["copied"]
    expected = [("a", day(2), late, "2", "20"), ("a", day(0), first, "3", "30"), ("b", day(1), older, "4", "40")]
    assert stale(spark.table("akg.days")) == expected
    assert stale(spark.read.parquet(f"{tmp_path.as_uri()}/out")) == expected
    newer = judged(base, "a", 0, 1, stale=8)
    run(spark, parse_arguments([*given, "--cluster", "a", "--days", "1"]))
    expected[1] = ("a", day(0), newer, "8", "80")
    assert stale(spark.table("akg.days")) == expected
    assert stale(spark.read.parquet(f"{tmp_path.as_uri()}/out")) == expected


def test_a_judgement_of_named_groups_is_no_day_of_the_cluster(spark: SparkSession, tmp_path: Path) -> None:
    """Somebody judged snapshots by their ids, which offsets_to_spark had taken of one group."""
    base = tmp_path / "base"
    whole, named = judged(base, "c", 1, 3, stale=40), {"named_groups": True}
    for hour in (5, 6):
        judged(base, "c", 1, hour, stale=1, changes=named)
    judged(base, "c", 0, 0, stale=2, changes=named)
    last = judged(base, "c", 0, 1, stale=1, changes=named)
    _, rows = rolled_up(spark, tmp_path)
    assert rows == [("c", day(1), whole, "40", "400"), ("c", day(0), last, "1", "10")], "of today is no other"


def test_a_summary_with_numbers_that_are_none_holds_no_other_cluster_up(spark: SparkSession, tmp_path: Path) -> None:
    base = tmp_path / "base"
    fine = judged(base, "fine", 0, 0, stale=3)
    wrong = {"huge": 10**30, "part": 2.9, "yes": True, "text": "3", "less": -3}
    for name, number in wrong.items():
        counts = {each.value: 0 for each in VerdictName} | {"stale": number}
        judged(base, name, 0, 0, stale=0, changes={"verdicts": counts})
    summary, rows = rolled_up(spark, tmp_path)
    assert (summary["clusters"], summary["failed"].keys()) == ({"fine": 1}, wrong.keys())
    assert "a number of groups and records for each verdict" in summary["failed"]["huge"]
    assert rows == [("fine", day(0), fine, "3", "30")]


@pytest.mark.parametrize("verdicts", [{"stale": 9}, {}])
def test_a_judgement_that_died_before_its_end_is_no_day(
    spark: SparkSession, tmp_path: Path, verdicts: dict[str, int]
) -> None:
    """Its first summary has no number of groups: the job had not yet looked whether all its snapshots were left."""
    base = tmp_path / "base"
    whole = judged(base, "c", 1, 3, stale=4, changes={"groups": 4})
    died = {"groups": None} | ({"verdicts": {name.value: 0 for name in VerdictName} | verdicts} if verdicts else {})
    judged(base, "c", 1, 5, stale=0, changes=died)
    judged(base, "c", 0, 5, stale=0, changes=died)
    summary, rows = rolled_up(spark, tmp_path)
    assert (summary["clusters"], summary["failed"]) == ({"c": 1}, {})
    assert rows == [("c", day(1), whole, "4", "40")]


def test_what_keeps_a_cluster_out_is_named_with_the_ways_to_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Of an old snapshot that was pruned, there is nothing left to judge again."""
    judged(tmp_path / "base", "c", 1, 0, stale=3)
    torn = judged(tmp_path / "base", "c", 0, 0, stale=3, changes={"verdicts": "none"})
    summary = run(spark, parse_arguments(["--base", f"{tmp_path}/base", "--output", f"{tmp_path}/out"]))
    said = f"no day of the cluster was rolled up: judge again (--snapshot-id {torn}), or remove that file"
    assert said in summary["failed"]["c"]


def test_all_clusters_are_written_to_the_table_at_once(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred clusters, one after the other, took minutes with Delta."""
    base = tmp_path / "base"
    expected = [(name, day(ago), judged(base, name, ago, 0, stale=3), "3", "30") for name in "abc" for ago in (2, 0)]
    said = list[str]()
    watch_statements(monkeypatch, said.append)
    run(spark, parse_arguments(["--base", str(base), "--table", "akg.days"]))
    assert len([text for text in said if text.startswith("INSERT")]) == 1
    assert stale(spark.table("akg.days")) == sorted(expected)
    judged(base, "b", 0, 1, stale=8)
    run(spark, parse_arguments(["--base", str(base), "--table", "akg.days", "--days", "1"]))
    assert [row[3] for row in stale(spark.table("akg.days"))] == ["3", "3", "3", "8", "3", "3"]


def test_a_cluster_whose_name_is_a_number_keeps_it_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    judged(tmp_path / "base", "007", 0, 0, stale=3)
    rolled_up(spark, tmp_path)
    assert {row["cluster"] for row in spark.read.parquet(f"{tmp_path}/out").collect()} == {7}
    (setting,) = re.findall(r"set `(spark\.sql\.sources\S+)=false`", (DOCS / "spark" / "tables.md").read_text())
    with settings_of(spark, {setting: "false"}):
        rows = spark.read.parquet(f"{tmp_path}/out").collect()
    assert {(row["cluster"], row["day"]) for row in rows} == {("007", day(0))}


def test_a_cluster_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    base = tmp_path / "base"
    judged(base, "a", 0, 0, stale=3)
    judged(base, "quiet", 90, 0, stale=3)
    summary, _ = rolled_up(spark, tmp_path, *(word for name in ("a", "quiet", "tpyo") for word in ("--cluster", name)))
    assert summary["clusters"] == {"a": 1, "quiet": 0}
    assert summary["failed"] == {"tpyo": f"there is no folder {base}/tpyo: check --base and --cluster"}


def test_days_are_replaced_also_by_a_committer_that_replaces_whole_tables_only(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """As Spark's own for S3, which it uses as soon as spark-hadoop-cloud is there; this one stands for it."""
    base = tmp_path / "base"
    judged(base, "c", 1, 0, stale=3)
    given = ["--base", str(base), "--output", f"{tmp_path}/out", "--table", "akg.days"]
    committer = "org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol"
    with settings_of(spark, {"spark.sql.sources.commitProtocolClass": committer}):
        run(spark, parse_arguments(given))
        last = judged(base, "c", 0, 0, stale=4)
        run(spark, parse_arguments([*given, "--days", "1"]))
    for rows in (spark.read.parquet(f"{tmp_path}/out"), spark.table("akg.days")):
        assert [row[3] for row in stale(rows)] == ["3", "4"]
        assert stale(rows)[1][2] == last


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--output (got None): give a folder, a --table, or both"),
        (["--output", "/o", "--days", "0"], "--days (got 0): give a number of days from 1 to 36600"),
        (["--output", "/o", "--days", "999999"], "--days (got 999999): give a number of days from 1 to 36600"),
        (["--output", "/o", "--cluster", ".."], "--cluster (got '..'): use 1 to 100 letters"),
    ],
)
def test_bad_arguments_are_named(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--base", "/b", *more])
    assert said in capsys.readouterr().err
