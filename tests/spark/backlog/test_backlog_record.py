"""The record by which a restart continues: on literal values and a real storage."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.arrow.errors import JobError, StorageError
from airflow_kafka_groups.arrow.files.storage import Storage
from airflow_kafka_groups.arrow.offsets import Commit, Partition, Range
from airflow_kafka_groups.backlog.attempt import ENDED_BEFORE, Attempt
from airflow_kafka_groups.backlog.commit import NotCommittedError, Observed
from airflow_kafka_groups.backlog.group_admin import GroupStatus
from airflow_kafka_groups.backlog.ranges import Backlog
from airflow_kafka_groups.backlog.record import (
    ABANDONED,
    COMMIT,
    COMMITTED,
    ENDED,
    NOT_COMMITTED,
    PROCESSED,
    PROCESSING,
    UNVERIFIED,
    Record,
    Run,
    TakenOverError,
    open_record,
)
from airflow_kafka_groups.backlog.slices import BacklogContext, cut, range_rows
from airflow_kafka_groups.contracts.digest import digest_of
from airflow_kafka_groups.spark.files.hadoop_storage import HadoopStorage, storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from tests.pages import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.safety]

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
BACKLOG = Backlog(ranges=(Range(A0, 4, 10), Range(A1, 0, 3)), ends={A0: 10, A1: 3, B0: 9})
BEFORE = {A0: Commit(4), A1: Commit(0), B0: Commit(9, 2, "m")}
REQUEST: dict[str, Any] = {
    "group_id": "g",
    "topics": [],
    "backlog_id": None,
    "isolation_level": "read_committed",
    "commit": True,
}


class Group(KafkaAdmin):
    """A group as its brokers keep it; ``dies`` fails a commit, before or after it is stored."""

    def __init__(self) -> None:
        self.commits = dict(BEFORE)
        self.dies = ""

    def state(self, group_id: str) -> GroupStatus:
        return GroupStatus("EMPTY", 0) if self.dies != "joined" else GroupStatus("STABLE", 1)

    def known(self, group_id: str) -> set[Partition]:
        return set(self.commits)

    def committed(self, group_id: str, partitions: Any) -> dict[Partition, Commit]:
        return {where: self.commits[where] for where in partitions if where in self.commits}

    def alter(self, group_id: str, offsets: Any, deadline: float) -> None:
        if self.dies == "before":
            raise Killed
        self.commits |= {where: Commit(offset) for where, offset in offsets.items()}
        if self.dies == "after":
            raise Killed


class Killed(Exception):
    """The process ends here."""


class Scene:
    """A record in a folder, a group, and a function that keeps what it processed."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.storage, self.folder, self.group = storage_of(spark, str(folder)), folder, Group()
        self.seen: list[BacklogContext] = []
        self.warned: list[str] = []
        self.stop_in = ""

    def record(self) -> Record:
        return open_record(self.storage, str(self.folder), "k", "g")

    def begin(self, *, size: int = 4, commit: bool = True) -> Run:
        return self.record().begin(REQUEST | {"commit": commit}, dict(self.group.commits), BACKLOG, size)

    def work(self) -> Attempt:
        record = self.record()
        run = record.run
        assert run is not None
        observed = Observed(group_id="g", existing=frozenset(BEFORE), committed=dict(self.group.commits))
        attempt = Attempt(self.group, record, run, observed, "k", self.warned.append)

        def process(context: BacklogContext) -> bool:
            self.seen.append(context)
            if self.stop_in == f"slice {context.slice}":
                raise Killed
            return True

        attempt.do(process)
        return attempt

    def entries(self) -> list[str]:
        return [json.loads(path.read_text())["kind"] for path in sorted(self.folder.glob("*/000001/*.json"))]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path)


def test_each_slice_is_recorded_before_and_after_each_step(scene: Scene) -> None:
    run = scene.begin()
    summary = scene.work().summary(failed=False)
    assert scene.entries() == ["run", "attempt", *["processing", "processed", "commit"] * 3, "ended"]
    assert [(one.slice, one.ranges, one.repeats) for one in scene.seen] == [
        (one.number, one.ranges, False) for one in run.slices
    ]
    assert {where: each.offset for where, each in scene.group.commits.items()} == {A0: 10, A1: 3, B0: 9}
    assert scene.group.commits[B0] == BEFORE[B0], "what does not change is not committed"
    assert (summary["outcome"], summary["slices_committed"], summary["committed"]) == ("committed", 3, 2)
    assert (summary["repeats"], summary["uncommitted"]) == ([], [])


def test_a_restart_processes_the_slice_that_was_in_work_and_says_so(scene: Scene) -> None:
    run = scene.begin()
    scene.stop_in = "slice 2"
    with pytest.raises(Killed):
        scene.work()
    scene.stop_in = ""
    work = scene.work()
    assert [(one.slice, one.attempt, one.repeats) for one in scene.seen] == [
        (1, 1, False),
        (2, 1, False),
        (2, 2, True),
        (3, 2, False),
    ]
    assert work.summary(failed=False)["repeats"] == range_rows(run.slices[1].ranges)
    assert "are processed again: a[0] [7, 9), a[1] [1, 3)" in work.warnings[0]


@pytest.mark.parametrize(("dies", "again"), [("before", [1, 1, 2, 3]), ("after", [1, 2, 3])])
def test_a_commit_whose_outcome_is_not_known_is_settled_by_the_group(scene: Scene, dies: str, again: list[int]) -> None:
    scene.begin()
    scene.group.dies = dies
    with pytest.raises(Killed):
        scene.work()
    scene.group.dies = ""
    summary = scene.work().summary(failed=False)
    assert [one.slice for one in scene.seen] == again
    assert (summary["outcome"], summary["slices_committed"]) == ("committed", 3)
    assert summary["repeats"] == (range_rows(cut(BACKLOG, 4)[0].ranges) if dies == "before" else [])


def test_a_commit_that_was_refused_is_made_up_for_without_processing(scene: Scene) -> None:
    scene.begin()
    scene.group.dies = "joined"
    with pytest.raises(NotCommittedError):
        scene.work()
    assert scene.record().outcomes() == {1: NOT_COMMITTED}
    scene.group.dies = ""
    summary = scene.work().summary(failed=False)
    assert ([one.slice for one in scene.seen], summary["outcome"], summary["repeats"]) == ([1, 2, 3], "committed", [])


@pytest.mark.parametrize("moved", [{A0: Commit(5)}, {B0: Commit(8)}, {A0: Commit(7), A1: Commit(0)}])
def test_a_group_that_somebody_else_moved_is_refused(scene: Scene, moved: dict[Partition, Commit]) -> None:
    scene.begin()
    scene.group.dies = "before"
    with pytest.raises(Killed):
        scene.work()
    scene.group.commits |= moved
    with pytest.raises(
        JobError, match=r"is not where run \S+ left it.*Then begin at its present commits by --start-over"
    ):
        scene.work()
    assert len(scene.seen) == 1
    assert scene.entries()[-1] == "processed", "nothing is recorded either"


def test_without_commits_a_restart_goes_by_the_record_alone(scene: Scene) -> None:
    scene.begin(commit=False)
    scene.stop_in = "slice 3"
    with pytest.raises(Killed):
        scene.work()
    scene.stop_in = ""
    summary = scene.work().summary(failed=False)
    assert [one.slice for one in scene.seen] == [1, 2, 3, 3]
    assert (summary["outcome"], scene.group.commits) == ("processed", BEFORE)
    count = len(scene.entries())
    work = scene.work()
    assert (work.summary(failed=False), len(scene.entries())) == (summary, count), "reported again, and not done again"
    assert work.warnings == [ENDED_BEFORE.format(run_id=summary["run_id"])], "another --output has nothing of it"


def test_the_entries_are_those_of_the_page(scene: Scene) -> None:
    scene.begin()
    scene.group.dies = "joined"
    with pytest.raises(NotCommittedError):
        scene.work()
    scene.group.dies = ""
    scene.work()
    page = (ROOT / "docs" / "formats.md").read_text().split("### Record\n", 1)[1]
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    documented = {row[0].strip("| `"): set(re.findall(r"`(\w+)`", row[2].partition("(")[0])) for row in table}
    common = set(re.findall(r'"(\w+)": ', page.split("```json", 1)[1].split("```")[0])) - {"attempt", "slice"}
    written: dict[str, set[str]] = {}
    for path in sorted(scene.folder.glob("*/000001/*.json")):
        entry = json.loads(path.read_text())
        written.setdefault(entry["kind"], set()).update(entry.keys() - common)
        assert common <= entry.keys()
    assert written == documented


def test_a_process_that_was_replaced_commits_nothing(scene: Scene) -> None:
    scene.begin()
    first = scene.record()
    scene.stop_in = "slice 1"
    with pytest.raises(Killed):
        scene.work()
    with pytest.raises(TakenOverError, match="another process works on this backlog too"):
        first.append(PROCESSED, attempt=1, slice=1)
    assert scene.record().processed() == {}


def test_a_run_that_is_given_up_is_continued_by_nobody_and_its_ranges_are_named(scene: Scene) -> None:
    scene.begin()
    scene.stop_in = "slice 2"
    with pytest.raises(Killed):
        scene.work()
    zombie = scene.record()
    scene.group.commits = dict(BEFORE)
    scene.begin()
    with pytest.raises(TakenOverError):
        zombie.append(PROCESSED, attempt=1, slice=2)
    scene.stop_in = ""
    work = scene.work()
    repeated = range_rows([Range(A0, 4, 9), Range(A1, 0, 3)])
    assert work.summary(failed=False)["repeats"] == repeated
    assert [one.repeats for one in scene.seen[2:]] == [True, True, False]
    assert scene.record().touched() == [], "what was committed and verified is no repeat when somebody sets it back"


def test_outcomes_and_attempts_are_folded(scene: Scene) -> None:
    scene.begin()
    record = scene.record()
    record.attempt(cut(BACKLOG, 4))
    for outcome in (UNVERIFIED, COMMITTED):
        record.append(PROCESSING, attempt=1, slice=1, ranges=[])
        record.append(PROCESSED, attempt=1, slice=1)
        record.append(COMMIT, attempt=1, slice=1, outcome=outcome)
    again = scene.record()
    assert (again.outcomes(), again.processed(), again.attempts, again.ended) == ({1: COMMITTED}, {1: 1}, 1, None)
    again.append(ENDED, outcome=ABANDONED)
    assert scene.record().ended == ABANDONED
    assert again.place == f"{scene.folder}/{Path(str(again.place)).parent.name}/000001"


@pytest.mark.parametrize("harm", ["changed", "gone", "torn", "future"])
def test_a_record_that_is_not_whole_stops_the_job(scene: Scene, harm: str) -> None:
    scene.begin()
    scene.work()
    path = next(scene.folder.glob("*/000001/000003.json"))
    entry = json.loads(path.read_text())
    if harm == "changed":
        path.write_text(json.dumps(entry | {"slice": 2}))
    elif harm == "torn":
        path.write_text(path.read_text()[:40])
    elif harm == "future":
        newer = {name: value for name, value in entry.items() if name != "digest"} | {"format": 2}
        path.write_text(json.dumps(newer | {"digest": digest_of(newer)}))
    else:
        path.unlink()
    with pytest.raises(JobError, match=r"000003.json is (missing|not an entry of the record)"):
        scene.record()


def test_a_long_record_is_read_several_entries_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store, thirty thousand requests one after the other would take half an hour."""
    scene.begin()
    scene.work()
    one_by_one, read_if_there = list[str](), Storage.read_if_there

    def read(storage: Storage, path: str) -> str | None:
        one_by_one.append(path)
        return read_if_there(storage, path)

    monkeypatch.setattr(Storage, "read_if_there", read)
    record = scene.record()
    assert record.ended == COMMITTED
    assert len(scene.entries()) == 12
    assert [path[-11:] for path in one_by_one] == ["000013.json"], "the next one, which may have come meanwhile"


def test_a_folder_that_a_killed_process_left_empty_is_no_run(scene: Scene) -> None:
    scene.begin()
    folder = next(scene.folder.glob("*/000001")).parent
    (folder / "000002").mkdir()
    assert scene.record().run is not None
    scene.begin()
    assert (folder / "000002" / "000001.json").exists()


FIRST = (
    '{"at": "2026-01-31T23:59:59+00:00", "before": [{"leader_epoch": null, "metadata": "", "offset": 4, "partitio'
    'n": 0, "topic": "a"}], "decided": [], "ends": [{"offset": 10, "partition": 0, "topic": "a"}], "format": 1, "'
    'kind": "run", "lost": [], "max_records_per_slice": 4, "previous": null, "processed_before": [], "ranges": [{'
    '"end": 10, "partition": 0, "start": 4, "topic": "a"}], "repeats": [], "request": {"backlog_id": null, "commi'
    't": true, "group_id": "g", "isolation_level": "read_committed", "topics": []}, "run_id": "20260131T235959Z-0'
    '123abcd", "digest": "0dd70a6dc690cfcb062c0dbd6ac6d4d22b5e64f773f7cf19590ccd27d5a2c7ad"}'
)


def test_a_record_of_the_first_format_is_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "g" / "000001").mkdir(parents=True)
    (tmp_path / "g" / "000001" / "000001.json").write_text(FIRST.replace('"offset": 4', '"offset": 3'))
    with pytest.raises(JobError, match="its digest"):
        Record(storage_of(spark, str(tmp_path)), f"{tmp_path}/g")
    (tmp_path / "g" / "000001" / "000001.json").write_text(FIRST)
    run = Record(storage_of(spark, str(tmp_path)), f"{tmp_path}/g").run
    assert run is not None
    assert (run.run_id, run.before, len(run.slices)) == ("20260131T235959Z-0123abcd", {A0: Commit(4)}, 2)


def test_a_file_is_created_once_on_a_storage_that_renames(spark: SparkSession, tmp_path: Path) -> None:
    """What is done where files cannot be linked, such as HDFS; here on a local disk by Hadoop's own calls."""
    storage = storage_of(spark, str(tmp_path))
    assert storage.create_text(f"{tmp_path}/a/1", "one")
    assert storage.create_text(f"{tmp_path}/a/1", "one"), "the answer to an earlier try may have been lost"
    assert not storage.create_text(f"{tmp_path}/a/1", "two")

    remote = HadoopStorage(spark, str(tmp_path))
    assert remote.create_text(f"{tmp_path}/b/1", "one")
    assert remote.create_text(f"{tmp_path}/b/1", "one")
    assert not remote.create_text(f"{tmp_path}/b/1", "two")
    assert (tmp_path / "b" / "1").read_text() == "one"
    assert remote.files(f"{tmp_path}/b") == ["1"], "nothing is left beside it"
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be created"):
        storage.create_text(f"{tmp_path}/file/1", "one")
