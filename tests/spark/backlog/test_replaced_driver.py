"""A driver that was given up, and goes on when another one has done its work: it takes nothing from the other."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, Partition, Range
from airflow_kafka_groups.spark.backlog import BacklogOutput
from airflow_kafka_groups.spark.jobs import process_group_backlog as job
from airflow_kafka_groups.spark.kafka import admin as client
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.unread import commit
from airflow_kafka_groups.spark.unread.commit import GroupStatus, NotCommittedError, NotVerifiedError, commit_ends
from airflow_kafka_groups.spark.unread.ranges import BacklogContext
from airflow_kafka_groups.spark.unread.run import COMMITTED, PROCESSED, Attempt, Record, TakenOverError
from tests.spark.kafka import Submit, behind, committed
from tests.unit.spark.unread.scene import A0, A1, BACKLOG, Scene
from tests.unit.spark.unread.test_commit import ENDS, OBSERVED

pytestmark = [pytest.mark.spark, pytest.mark.safety]


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
    for module in (commit, client):
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
