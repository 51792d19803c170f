"""The record by which a restart continues: on literal values and a real storage."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Range
from airflow_kafka_groups.spark.unread.commit import NotCommittedError
from airflow_kafka_groups.spark.unread.ranges import Backlog, cut, range_rows
from airflow_kafka_groups.spark.unread.record import (
    ABANDONED,
    COMMIT,
    COMMITTED,
    ENDED,
    PROCESSED,
    PROCESSING,
    UNVERIFIED,
    TakenOverError,
)
from airflow_kafka_groups.storage.formats import digest_of
from airflow_kafka_groups.storage.job_files import Storage
from tests.pages import ROOT
from tests.unit.spark.unread.scene import A0, A1, BACKLOG, BEFORE, EMPTY, JOINED, REQUEST, Killed, Scene

pytestmark = pytest.mark.safety


def test_the_entries_are_those_of_the_page(scene: Scene) -> None:
    scene.begin()
    scene.group.status = JOINED
    with pytest.raises(NotCommittedError):
        scene.work()
    scene.group.status = EMPTY
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
    assert len(scene.kinds()) == 12
    assert [path[-11:] for path in one_by_one] == ["000013.json"], "the next one, which may have come meanwhile"


def test_a_folder_that_a_killed_process_left_empty_is_no_run(scene: Scene) -> None:
    scene.begin()
    folder = next(scene.folder.glob("*/000001")).parent
    (folder / "000002").mkdir()
    assert scene.record().run is not None
    scene.begin()
    assert (folder / "000002" / "000001.json").exists()


def test_what_an_abandoned_run_processed_is_named_also_after_a_run_of_other_topics(scene: Scene) -> None:
    scene.begin(size=0)
    record = scene.record()
    slices = record.run.slices if record.run else ()
    record.attempt(slices)
    record.append(PROCESSING, attempt=1, slice=1, ranges=range_rows(BACKLOG.ranges))  # and then it is killed
    first = Backlog(ranges=(Range(A0, 4, 10),), ends={A0: 10})
    record = scene.record()
    record.begin(REQUEST | {"topics": ["a0"]}, dict(BEFORE), first, 0)
    assert record.repeats() == [Range(A0, 4, 10)]
    record.attempt(record.run.slices if record.run else ())
    record.append(PROCESSING, attempt=1, slice=1, ranges=range_rows(first.ranges))
    record.append(PROCESSED, attempt=1, slice=1)
    record.append("commit", attempt=1, slice=1, outcome=COMMITTED)
    record.append(ENDED, outcome=COMMITTED)
    record = scene.record()
    record.begin(REQUEST | {"topics": ["a1"]}, dict(BEFORE), Backlog(ranges=(Range(A1, 0, 3),), ends={A1: 3}), 0)
    assert record.repeats() == [Range(A1, 0, 3)]


def test_what_several_runs_that_were_given_up_processed_is_named(scene: Scene) -> None:
    record = scene.record()
    for each in BACKLOG.ranges:
        run = record.begin(REQUEST, BEFORE, Backlog(ranges=(each,), ends={each.partition: each.end}), 0)
        record.attempt(run.slices)
        record.append(PROCESSING, attempt=1, slice=1, ranges=range_rows([each]))
    record.begin(REQUEST, BEFORE, BACKLOG, 0)
    assert record.repeats() == [*BACKLOG.ranges]
