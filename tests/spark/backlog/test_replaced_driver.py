"""Drivers that are killed anywhere, or given up and go on when another one has done the work: no record is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, Partition, Range
from airflow_kafka_groups.spark.bundle import APPLICATION
from airflow_kafka_groups.spark.jobs import process_group_backlog as job
from airflow_kafka_groups.spark.jobs.process_group_backlog import BacklogOutput
from airflow_kafka_groups.spark.kafka import admin as client
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.unread import group as guarded
from airflow_kafka_groups.spark.unread.group import GroupStatus, NotCommittedError, NotVerifiedError, commit_ends
from airflow_kafka_groups.spark.unread.ranges import BacklogContext
from airflow_kafka_groups.spark.unread.run import COMMITTED, PROCESSED, Attempt, Record, TakenOverError
from tests.lab.spark.archive import quick_options
from tests.lab.spark.jars import connector_jars
from tests.pages import ROOT
from tests.spark.backlog_driver import AFTER_COMMIT, AFTER_ENTRY, BEFORE_ENTRY, EXITED, PLACES
from tests.spark.kafka import Submit, behind, committed, write_properties
from tests.unit.spark.unread.scene import A0, A1, BACKLOG, Scene
from tests.unit.spark.unread.test_group import ENDS, OBSERVED

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.safety]


class Drivers:
    """Processes that work on one backlog."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.out = spark, folder / "out"
        self.scene = Scene(folder / "records")

    def start(self) -> tuple[Attempt, BacklogOutput, Record]:
        record, output = self.scene.record(), BacklogOutput(self.spark, str(self.out), "parquet", "errorifexists")
        return self.scene.attempt(record), output, record

    def read(self, ranges: Sequence[Range]) -> DataFrame:
        rows = [(*each.partition, at) for each in ranges for at in range(each.start, each.end)]
        return self.spark.createDataFrame(rows, "topic string, partition int, `offset` long")

    def run(self, work: Attempt, output: BacklogOutput, handle: Callable[..., Any] | None = None) -> None:
        """Run a driver to its end, as the job does."""
        function = handle or job.handler(None, output)

        def process(context: BacklogContext) -> bool:
            function(self.read(context.ranges), context)
            return True

        try:
            work.do(process)
        except TakenOverError as exc:
            if exc.entry == PROCESSED:
                output.discard()
            raise

    def written(self) -> set[tuple[Any, ...]]:
        folders = list(self.out.iterdir()) if self.out.exists() else []
        rows = self.spark.read.parquet(str(self.out)).collect() if folders else []
        return {(row["topic"], row["partition"], row["offset"]) for row in rows}

    def check(self) -> None:
        assert {where: each.offset for where, each in self.scene.group.commits.items()} == dict(BACKLOG.ends)
        assert self.written() == {
            (*each.partition, at) for each in BACKLOG.ranges for at in range(each.start, each.end)
        }


@pytest.fixture
def drivers(spark: SparkSession, tmp_path: Path) -> Drivers:
    return Drivers(spark, tmp_path)


def test_one_that_stood_still_in_its_transform_deletes_no_output_of_its_successor(drivers: Drivers) -> None:
    drivers.scene.begin(size=0)
    work, output, _ = drivers.start()

    def stands_still(records: DataFrame, context: Any) -> None:
        other, others_output, _ = drivers.start()
        drivers.run(other, others_output)
        assert other.summary(failed=False)["outcome"] == COMMITTED
        job.handler(None, output)(records, context)

    with pytest.raises(JobError, match="another process works on this backlog too, and has written slice 1"):
        drivers.run(work, output, stands_still)
    drivers.check()


@pytest.mark.parametrize(("kind", "number"), [("commit", 1), ("processing", 2)])
def test_one_that_stood_still_between_slices_deletes_none_that_is_recorded_as_processed(
    drivers: Drivers, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    drivers.scene.begin(size=5)
    work, output, record = drivers.start()
    append, others = record.append, list[Attempt]()

    def stands_still(entry: str, **fields: Any) -> None:
        if (entry, fields.get("slice")) == (kind, number) and not others:
            other, others_output, _ = drivers.start()
            others.append(other)
            drivers.run(other, others_output)
        append(entry, **fields)

    monkeypatch.setattr(record, "append", stands_still)
    with pytest.raises(TakenOverError):
        drivers.run(work, output)
    assert others[0].summary(failed=False)["outcome"] == COMMITTED
    drivers.check()


@pytest.mark.parametrize("made", ["an output", "a transform of its own"])
def test_the_result_is_that_of_its_successor(kafka: str, submit: Submit, tmp_path: Path, made: str) -> None:
    """It has failed, and the run has not: whoever reads the result commits, or processes the records again."""
    topic = f"rd-{len(made)}"
    behind(kafka, topic, {(topic, 0): (1, 3)})
    result, others = tmp_path / "result.json", list[dict[str, Any]]()
    arguments: list[Any] = ["--group", topic, "--result", str(result)]
    if made == "an output":
        arguments += ["--output", str(tmp_path / "out")]

    def stands_still(records: DataFrame, context: BacklogContext) -> DataFrame | None:
        if context.attempt == 1:
            others.append(submit(stands_still, *arguments))
        return records if made == "an output" else records.foreach(lambda row: None)

    with pytest.raises(TakenOverError, match="another process works on this backlog too"):
        submit(stands_still, *arguments)
    assert [json.loads(result.read_text())] == others
    assert (others[0]["outcome"], committed(kafka, topic, (topic, 0))) == ("committed", [3])


class StandsStill(KafkaAdmin):
    """The real commit, of a process that is stopped after it has read the group: others move it on meanwhile."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.commits = {A0: Commit(4), A1: Commit(9)}
        self._kafka, self._admin, self._properties = MagicMock(), MagicMock(), KafkaProperties({})

    def state(self, group_id: str) -> GroupStatus:
        return GroupStatus("EMPTY", 0)

    def known(self, group_id: str) -> set[Partition]:
        return set(self.commits)

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        return {where: self.commits[where] for where in partitions if where in self.commits}

    def _named(self, where: Partition) -> Any:
        self.clock[0] += self.seconds
        self.commits[where] = Commit(20)
        return where


@pytest.mark.parametrize("seconds", [14.0, 3600.0])
def test_a_process_that_stood_still_after_it_read_the_group_commits_nothing(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    clock = [100.0]
    for module in (guarded, client):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]), raising=False)
    group = StandsStill(clock, seconds)
    late = seconds > 15
    said = "nothing was committed: .* too long after the group was read" if late else "somebody else commits"
    with pytest.raises(NotCommittedError if late else NotVerifiedError, match=said):
        commit_ends(group, OBSERVED, ENDS)
    sent = group._admin.alterConsumerGroupOffsets
    options = group._kafka.clients.admin.AlterConsumerGroupOffsetsOptions.return_value
    assert sent.called is not late
    assert [call.args for call in options.timeoutMs.call_args_list] == ([] if late else [(1000,)])


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
