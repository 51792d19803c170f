"""kill -9 at every place of the work on a backlog: a sink that overwrites has every record once, repeats are named."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.bundle import APPLICATION
from tests.lab.spark.archive import quick_options
from tests.lab.spark.jars import connector_jars
from tests.pages import ROOT
from tests.spark.backlog_driver import AFTER_COMMIT, AFTER_ENTRY, BEFORE_ENTRY, EXITED, PLACES
from tests.spark.kafka import Submit, behind, committed, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.safety]

Offset = tuple[str, int, int]
Drive = Callable[..., tuple[int, list[str]]]


def rows_of(ranges: list[dict[str, Any]]) -> set[Offset]:
    return {(row["topic"], row["partition"], offset) for row in ranges for offset in range(row["start"], row["end"])}


@pytest.fixture
def drive(spark: SparkSession) -> Iterator[Drive]:
    """Run a driver in the session's JVM to its end: its exit code, and the lines that it wrote."""
    gateway: Any = spark.sparkContext._gateway
    port, token = gateway.gateway_parameters.port, gateway.gateway_parameters.auth_token
    own = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": token, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.backlog_driver"],
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as drivers:
        assert drivers.stdin
        assert drivers.stdout
        requests, answers = drivers.stdin, drivers.stdout

        def driven(place: str, sinks: Path, *arguments: str) -> tuple[int, list[str]]:
            requests.write(json.dumps([place, str(sinks), *arguments]) + "\n")
            requests.flush()
            written: list[str] = []
            for line in answers:
                if line.startswith(EXITED):
                    return int(line.removeprefix(EXITED)), written
                written.append(line)
            pytest.fail("".join(written))

        yield driven


def test_after_a_kill_at_every_place_each_record_is_there_once_and_each_repeat_is_named(
    spark: SparkSession, kafka: str, tmp_path: Path, drive: Drive
) -> None:
    behind(kafka, "bk", {("bk-a", 0): (6, 30), ("bk-a", 1): (4, 12)})
    unread = {("bk-a", 0, offset) for offset in range(6, 30)} | {("bk-a", 1, offset) for offset in range(4, 12)}
    properties = write_properties(tmp_path, kafka)
    arguments = ["--kafka-properties", str(properties), "--group", "bk", "--max-records-per-slice", "8"]
    arguments += ["--records", str(tmp_path / "records"), "--result", str(tmp_path / "result.json")]
    plain = tmp_path / "plain"
    plain.touch()
    for place in PLACES:
        before = Counter(tuple(json.loads(line)[1:]) for line in plain.read_text().splitlines())
        code, said = drive(place, tmp_path, *arguments)
        assert code == -signal.SIGKILL, (place, said)
        attempt = newest_attempt(tmp_path / "records")
        written = [tuple(row[1:]) for row in lines(plain) if row[0] == attempt.get("attempt")]
        repeated = {row for row in written if row in before}
        assert repeated <= rows_of(attempt.get("repeats", [])), f"{place}: processed again, and not announced"
    code, said = drive("nowhere", tmp_path, *arguments)
    assert code == 0, said
    summary = json.loads(said[-1])
    counts = Counter(tuple(row[1:]) for row in lines(plain))
    assert set(counts) == unread, "at least once"
    assert {row for row, count in counts.items() if count > 1} == rows_of(summary["repeats"]), "exactly as announced"
    once = spark.read.parquet(*map(str, (tmp_path / "once").iterdir())).collect()
    assert Counter((row["topic"], row["partition"], row["offset"]) for row in once) == Counter(unread)
    assert committed(kafka, "bk", ("bk-a", 0), ("bk-a", 1)) == [30, 12]
    assert (summary["outcome"], summary["slices"], summary["slices_committed"]) == ("committed", 4, 4)
    assert max(counts.values()) < len(PLACES), "a kill costs one slice"
    assert json.loads((tmp_path / "result.json").read_text()) == summary
    assert sum(counts.values()) - len(unread) <= 8 * len(PLACES)


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def newest_attempt(records: Path) -> dict[str, Any]:
    entries = [json.loads(path.read_text()) for path in sorted(records.glob("*/000001/*.json"))]
    return next((entry for entry in reversed(entries) if entry["kind"] == "attempt"), {})


def test_the_places_are_those_of_the_life_of_a_slice() -> None:
    assert len(PLACES) == len(set(PLACES)) >= 10
    assert PLACES[0].startswith(BEFORE_ENTRY)
    assert PLACES[-2].startswith(AFTER_ENTRY)
    assert AFTER_COMMIT in PLACES


@pytest.fixture
def driver(kafka: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the job by spark-submit, in a JVM of its own, with a query that is written slowly."""
    behind(kafka, "bw", {("bw", 0): (1, 6)})
    (tmp_path / "slow.py").write_text(
        "def slow(records):\n"
        "    return records.selectExpr('*', \"reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', "
        'CASE WHEN offset > 3 THEN 60000000000L ELSE 1L END)")\n'
    )
    properties = write_properties(tmp_path, kafka)
    program = Path(sys.executable).with_name("spark-submit")
    jars = ",".join(str(jar) for jar in connector_jars())
    command = [str(program), "--master", "local[1]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"]
    command += ["--jars", jars, "--driver-java-options", quick_options()]
    command += [str(APPLICATION), "process_group_backlog", "--kafka-properties", str(properties), "--group", "bw"]
    command += ["--transform", "slow:slow", "--output", str(tmp_path / "out")]
    own = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        yield process
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_job_that_was_killed_while_it_wrote_is_run_again_with_the_same_command(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path, driver: subprocess.Popen[bytes]
) -> None:
    limit = time.monotonic() + 120
    while not list((tmp_path / "out").glob("*/_temporary/0/_temporary/*/*.parquet")):
        assert time.monotonic() < limit, (tmp_path / "log").read_text()
        assert driver.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    end(driver)
    assert committed(kafka, "bw", ("bw", 0)) == [1]
    summary = submit("--group", "bw", "--output", str(tmp_path / "out"))
    assert (summary["attempts"], rows_of(summary["repeats"])) == (2, {("bw", 0, offset) for offset in range(1, 6)})
    offsets = [row["offset"] for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert (sorted(offsets), committed(kafka, "bw", ("bw", 0))) == ([1, 2, 3, 4, 5], [6])
    assert len(list((tmp_path / "out").iterdir())) == 1, "what the first attempt left is gone"
