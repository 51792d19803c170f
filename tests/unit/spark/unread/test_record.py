"""The record by which a restart continues: on literal values and a real storage."""

import json
import re
import threading
from dataclasses import replace

import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Range
from airflow_kafka_groups.spark.unread.group import BacklogRequest, FetchedOffsets, NotCommittedError, Observed
from airflow_kafka_groups.spark.unread.ranges import Backlog, range_rows
from airflow_kafka_groups.spark.unread.run import (
    ABANDONED,
    COMMITTED,
    ENDED,
    PROCESSED,
    PROCESSING,
    Record,
    Run,
    resume_or_begin,
)
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import digest_of
from tests.pages import ROOT
from tests.unit.spark.unread.scene import A0, A1, B0, BACKLOG, BEFORE, EMPTY, JOINED, LOGS, REQUEST, Scene

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
    one_by_one, real = list[str](), Storage.read

    def read(storage: Storage, path: str) -> bytes | None:
        if threading.current_thread() is threading.main_thread():
            one_by_one.append(path)
        return real(storage, path)

    monkeypatch.setattr(Storage, "read", read)
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


ASKED = BacklogRequest(group_id="g", max_records_per_slice=4)
FETCHED = FetchedOffsets(backlog_id="b", kafka_cluster_id="k", group_id="g", committed=BEFORE, ends={})


def resume(scene: Scene, request: BacklogRequest = ASKED) -> tuple[Record, Run]:
    committed = dict(scene.group.commits)
    existing = frozenset(where for where in BEFORE if where in scene.group.logs)
    return resume_or_begin(
        scene.group, request, Observed(group_id="g", existing=existing, committed=committed), scene.record()
    )


def test_what_an_open_transaction_hides_is_told_by_each_try_of_the_run(scene: Scene) -> None:
    """A group whose backlog a hanging transaction hid was called processed, run after run."""
    scene.group.stable = {A0: 8}
    resume(scene)
    scene.killed_in("slice 1")
    assert scene.work().summary(failed=False)["offsets_behind_open_transaction"] == 2
    told = [
        text for text in scene.warned if text.startswith("2 unread offsets were behind the beginning of an open tr")
    ]
    assert len(told) == 2


def begun(scene: Scene, request: BacklogRequest = ASKED, *, ended: str | None = None) -> str:
    """Begin a run, and perhaps end it; return its id."""
    record, run = resume(scene, request)
    if ended is not None:
        record.append(ENDED, outcome=ended)
    return run.run_id


def test_a_run_that_has_not_ended_is_continued_whatever_may_be_decided_differently_by_now(scene: Scene) -> None:
    run_id = begun(scene)
    scene.group.commits |= {A0: Commit(7)}  # by its own first slice
    record, run = resume(scene, replace(ASKED, max_records_per_slice=2))
    assert (run.run_id, len(run.slices), scene.kinds()) == (run_id, 3, ["run"])
    assert record.place == scene.record().place


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, topics=frozenset("a")),
        replace(ASKED, commit=False),
        replace(ASKED, isolation_level="read_uncommitted"),
        replace(ASKED, fetched=FETCHED),
        replace(ASKED, start_over=True),
    ],
)
def test_what_asks_for_something_else_begins_a_new_run_and_gives_the_old_one_up(
    scene: Scene, other: BacklogRequest
) -> None:
    run_id = begun(scene)
    record, run = resume(scene, other)
    assert (run.run_id != run_id, run.request) == (True, other.identity())
    assert [entry.get("outcome") for entry in scene.entries()] == [None, ABANDONED]
    assert (record.ended, [entry["kind"] for entry in scene.entries(2)]) == (None, ["run"])


@pytest.mark.parametrize(
    ("request_", "ended", "moved", "again"),
    [
        (ASKED, COMMITTED, False, False),
        (ASKED, ABANDONED, False, False),
        (replace(ASKED, commit=False), PROCESSED, False, True),
        (replace(ASKED, commit=False), PROCESSED, True, False),
        (replace(ASKED, fetched=FETCHED), COMMITTED, False, True),
        (replace(ASKED, fetched=FETCHED), ABANDONED, False, False),
        (replace(ASKED, fetched=FETCHED, start_over=True), COMMITTED, False, False),
    ],
)
def test_a_run_that_has_ended_is_reported_again_only_if_nothing_can_have_come_since(
    scene: Scene, request_: BacklogRequest, ended: str, moved: bool, again: bool
) -> None:
    run_id = begun(scene, replace(request_, start_over=False), ended=ended)
    if moved:
        scene.group.commits |= {A0: Commit(5)}
    _, run = resume(scene, request_)
    assert (run.run_id == run_id) is again
    assert scene.kinds() == ["run", "ended"], "one that has ended is not given up"


def test_records_that_are_gone_stop_a_run_that_has_still_to_read_them(scene: Scene) -> None:
    begun(scene)
    scene.group.logs[A0] = LogEnds(5, 10)
    with pytest.raises(JobError, match=r"retention removed .*a\[0\] begins at 5, and 4 is next.*--on-data-loss"):
        resume(scene)
    scene.group.logs[A0] = LogEnds(0, 9)
    with pytest.raises(JobError, match=r"a\[0\] ends at 9, and its records up to 10 are left.*truncated or recreated"):
        resume(scene)
    assert scene.kinds() == ["run"], "it can be continued when they are there"


def test_records_that_are_gone_after_they_were_processed_stop_nothing(scene: Scene) -> None:
    run_id, record = begun(scene), scene.record()
    for number in (1, 2):
        record.append(PROCESSING, attempt=1, slice=number, ranges=[])
        record.append(PROCESSED, attempt=1, slice=number)
    scene.group.logs |= {A0: LogEnds(9, 10), A1: LogEnds(0, 0)}
    assert resume(scene)[1].run_id == run_id


def test_records_that_are_gone_do_not_matter_to_a_run_that_has_ended(scene: Scene) -> None:
    run_id = begun(scene, replace(ASKED, commit=False), ended=PROCESSED)
    scene.group.logs[A0] = LogEnds(9, 10)
    assert resume(scene, replace(ASKED, commit=False))[1].run_id == run_id


def test_a_topic_that_is_gone_is_left_to_the_groups_commits(scene: Scene) -> None:
    run_id = begun(scene)
    scene.group.logs = {B0: LOGS[B0]}
    assert resume(scene)[1].run_id == run_id


@pytest.mark.parametrize("start_over", [False, True])
def test_where_nothing_is_left_to_read_nothing_is_recorded_but_that_a_run_is_given_up(
    scene: Scene, start_over: bool
) -> None:
    begun(scene, ended=None if start_over else COMMITTED)
    scene.group.commits = {where: Commit(log.end) for where, log in LOGS.items()}
    record, run = resume(scene, replace(ASKED, start_over=start_over))
    assert (record.place, run.backlog.ranges, run.backlog.ends) == (None, (), {A0: 10, A1: 3, B0: 9})
    assert scene.entries()[-1]["outcome"] == (ABANDONED if start_over else COMMITTED)
    assert scene.entries(2) == []


def test_a_run_of_other_topics_is_not_given_up_for_a_request_with_nothing_to_read(scene: Scene) -> None:
    begun(scene, replace(ASKED, topics=frozenset("a")))
    record, run = resume(scene, replace(ASKED, topics=frozenset("b")))
    assert (record.place, run.backlog.ends) == (None, {B0: 9})
    assert scene.kinds() == ["run"], "its slices can still be continued"
