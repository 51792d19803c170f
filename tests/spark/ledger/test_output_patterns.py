"""An ``--output`` that Spark would read as a pattern: what is read back would be another folder's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.jobs import (
    archive_backlog,
    commit_history,
    judge_staleness,
    lag_report,
    process_group_backlog,
    roll_up,
)
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen

pytestmark = pytest.mark.spark
PATTERNS = ("/out/*", "/out{a,b}", "s3a://bucket/o[1]")


@pytest.mark.parametrize("job", [lag_report, judge_staleness])
def test_the_rows_of_another_folder_are_not_written_to_the_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: Any
) -> None:
    def report(name: str, output: str) -> None:
        write_snapshot(tmp_path / name, 1, seen(1, group=name), groups=1)
        arguments = ["--base", str(tmp_path / name), "--cluster", CLUSTER, "--output", f"{tmp_path}/{output}"]
        arguments += ["--min-idle", "1h"] if job is judge_staleness else []
        job.run(spark, job.parse_arguments([*arguments, "--table", "spark_catalog.akp.rows"]))

    spark.sql(f"CREATE DATABASE akp LOCATION '{tmp_path.as_uri()}/warehouse'")
    try:
        report("first", "out1")
        with pytest.raises(SystemExit):
            report("second", "out[1]")
        assert "--output (got" in capsys.readouterr().err
    finally:
        spark.sql("DROP DATABASE akp CASCADE")


@pytest.mark.parametrize(
    ("parse", "others"),
    [
        (lag_report.parse_arguments, []),
        (judge_staleness.parse_arguments, ["--min-idle", "1h"]),
        (archive_backlog.parse_arguments, ["--kafka-properties", "k", "--group", "g"]),
    ],
)
@pytest.mark.parametrize("output", ["", "/", *PATTERNS])
def test_an_output_that_is_a_pattern_or_nothing_is_named(
    capsys: pytest.CaptureFixture[str], parse: Callable[..., Any], others: list[str], output: str
) -> None:
    with pytest.raises(SystemExit):
        parse(["--base", "/b", "--cluster", "c", "--output", output, *others])
    assert "give a folder or URI without any of * ? [ ] { }" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parse", "others"),
    [
        (process_group_backlog.parse_arguments, ["--kafka-properties", "k", "--group", "g"]),
        (roll_up.parse_arguments, ["--base", "/b"]),
        (commit_history.parse_arguments, ["--kafka-properties", "k"]),
    ],
)
@pytest.mark.parametrize("output", PATTERNS)
def test_rows_that_nobody_could_read_are_not_written(
    capsys: pytest.CaptureFixture[str], parse: Callable[..., Any], others: list[str], output: str
) -> None:
    """Of a backlog, they would be committed besides."""
    with pytest.raises(SystemExit):
        parse(["--output", output, *others])
    assert f"--output (got {output!r}): give a folder or URI without any of * ? [ ] {{ }}" in capsys.readouterr().err
