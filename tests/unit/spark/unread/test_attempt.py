"""Attempts at a run: what is processed, recorded and committed, in which order, and what is not."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import JobError, StorageError
from airflow_kafka_groups.observe.offset_values import Commit, Partition, Range
from airflow_kafka_groups.spark.unread.group import NotCommittedError, NotVerifiedError
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogContext, cut, range_rows
from airflow_kafka_groups.spark.unread.run import (
    ATTEMPT,
    COMMIT,
    COMMITTED,
    ENDED,
    ENDED_BEFORE,
    NOT_COMMITTED,
    PROCESSED,
    PROCESSING,
    READ_NOTHING,
    UNVERIFIED,
    Record,
    TakenOverError,
)
from tests.unit.spark.unread.scene import A0, A1, B0, BACKLOG, BEFORE, EMPTY, JOINED, REQUEST, Killed, Scene, Unsure

pytestmark = pytest.mark.safety


def test_each_slice_is_recorded_before_and_after_each_step(scene: Scene) -> None:
    run = scene.begin()
    summary = scene.work().summary(failed=False)
    assert scene.kinds() == ["run", "attempt", *["processing", "processed", "commit"] * 3, "ended"]
    assert [(one.slice, one.ranges, one.repeats) for one in scene.seen] == [
        (one.number, one.ranges, False) for one in run.slices
    ]
    assert {where: each.offset for where, each in scene.group.commits.items()} == {A0: 10, A1: 3, B0: 9}
    assert scene.group.commits[B0] == BEFORE[B0], "what does not change is not committed"
    assert (summary["outcome"], summary["slices_committed"], summary["committed"]) == ("committed", 3, 2)
    assert (summary["repeats"], summary["uncommitted"]) == ([], [])


def test_a_restart_processes_the_slice_that_was_in_work_and_says_so(scene: Scene) -> None:
    run = scene.begin()
    scene.killed_in("slice 2")
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
    scene.killed_while_committing(dies)
    summary = scene.work().summary(failed=False)
    assert [one.slice for one in scene.seen] == again
    assert (summary["outcome"], summary["slices_committed"]) == ("committed", 3)
    assert summary["repeats"] == (range_rows(cut(BACKLOG, 4)[0].ranges) if dies == "before" else [])


def test_a_commit_that_was_refused_is_made_up_for_without_processing(scene: Scene) -> None:
    scene.begin()
    scene.group.status = JOINED
    with pytest.raises(NotCommittedError):
        scene.work()
    assert scene.record().outcomes() == {1: NOT_COMMITTED}
    scene.group.status = EMPTY
    summary = scene.work().summary(failed=False)
    assert ([one.slice for one in scene.seen], summary["outcome"], summary["repeats"]) == ([1, 2, 3], "committed", [])


@pytest.mark.parametrize("moved", [{A0: Commit(5)}, {B0: Commit(8)}, {A0: Commit(7), A1: Commit(0)}])
def test_a_group_that_somebody_else_moved_is_refused(scene: Scene, moved: dict[Partition, Commit]) -> None:
    scene.begin()
    scene.killed_while_committing("before")
    scene.group.commits |= moved
    with pytest.raises(
        JobError, match=r"is not where run \S+ left it.*Then begin at its present commits by --start-over"
    ):
        scene.work()
    assert len(scene.seen) == 1
    assert scene.kinds()[-1] == "processed", "nothing is recorded either"


def test_without_commits_a_restart_goes_by_the_record_alone(scene: Scene) -> None:
    scene.begin(commit=False)
    scene.killed_in("slice 3")
    summary = scene.work().summary(failed=False)
    assert [one.slice for one in scene.seen] == [1, 2, 3, 3]
    assert (summary["outcome"], scene.group.commits) == ("processed", BEFORE)
    count = len(scene.kinds())
    work = scene.work()
    assert (work.summary(failed=False), len(scene.kinds())) == (summary, count), "reported again, and not done again"
    assert work.warnings == [ENDED_BEFORE.format(run_id=summary["run_id"])], "another --output has nothing of it"


def test_a_run_that_is_given_up_is_continued_by_nobody_and_its_ranges_are_named(scene: Scene) -> None:
    scene.begin()
    scene.killed_in("slice 2")
    zombie = scene.record()
    scene.group.commits = dict(BEFORE)
    scene.begin()
    with pytest.raises(TakenOverError):
        zombie.append(PROCESSED, attempt=1, slice=2)
    work = scene.work()
    repeated = range_rows([Range(A0, 4, 9), Range(A1, 0, 3)])
    assert work.summary(failed=False)["repeats"] == repeated
    assert [one.repeats for one in scene.seen[2:]] == [True, True, False]
    assert scene.record().touched() == [], "what was committed and verified is no repeat when somebody sets it back"


def test_a_later_attempt_of_a_new_run_names_what_the_run_before_processed(scene: Scene) -> None:
    scene.begin()
    scene.killed_in("slice 3")
    scene.group.commits = dict(BEFORE)  # it is set back, and everything is to be processed again
    scene.begin()
    scene.seen.clear()
    scene.killed_in("slice 1")
    scene.work()
    attempts = [(one.slice, one.attempt, one.repeats) for one in scene.seen]
    assert attempts == [(1, 1, True), (1, 2, True), (2, 2, True), (3, 2, True)]


def test_the_intent_is_recorded_before_each_effect_and_the_outcome_after_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.begin(size=0)
    record, happened = scene.record(), list[str]()
    append, alter = record.append, scene.group.alter

    def recorded(kind: str, **fields: Any) -> None:
        append(kind, **fields)
        happened.append(f"entry {kind}")

    def altered(*given: Any) -> None:
        happened.append("commit sent")
        alter(*given)

    def reads_nothing(context: BacklogContext) -> bool:
        happened.append("work")
        return False

    monkeypatch.setattr(record, "append", recorded)
    monkeypatch.setattr(scene.group, "alter", altered)
    scene.warned = happened
    attempt = scene.attempt(record)
    attempt.do(reads_nothing)
    warning = READ_NOTHING.format(what="slice 1 of 1")
    assert happened == [
        *("entry attempt", "entry processing", "work", warning),
        *("entry processed", "commit sent", "entry commit", "entry ended"),
    ]
    assert attempt.warnings == [warning]


def test_what_is_not_committed_because_another_process_has_done_it_is_no_failure_of_the_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result said that the records were not committed, in place of the other one's, which had committed them."""
    scene.begin(size=0)
    record = scene.record()
    append = record.append

    def overtaken(kind: str, **fields: Any) -> None:
        append(kind, **fields)
        if kind == PROCESSED:
            scene.work()

    monkeypatch.setattr(record, "append", overtaken)
    with pytest.raises(TakenOverError):
        scene.attempt(record).do(scene.process)
    assert (scene.record().outcomes(), scene.record().ended) == ({1: COMMITTED}, COMMITTED)


def test_what_reads_differently_because_another_process_has_gone_on_is_no_doubt_about_the_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result said that somebody else commits for the group, in place of the other one's, which had committed."""
    scene.begin()
    attempt, alter, others = scene.attempt(), scene.group.alter, list[Any]()

    def overtaken(group_id: str, offsets: Any, deadline: float) -> None:
        alter(group_id, offsets, deadline)
        if not others:
            others.append("has begun")
            scene.work()

    monkeypatch.setattr(scene.group, "alter", overtaken)
    with pytest.raises(TakenOverError):
        attempt.do(scene.process)
    assert scene.record().ended == COMMITTED
    assert {where: each.offset for where, each in scene.group.commits.items()} == dict(BACKLOG.ends)


def killed(context: BacklogContext) -> bool:
    raise Killed


def test_a_repeated_slice_that_nothing_reads_is_a_warning(scene: Scene) -> None:
    """Delta passes over it, by the transaction of a killed attempt. One that failed may have read nothing."""
    scene.begin(size=0)
    with pytest.raises(Killed):
        scene.attempt(scene.record()).do(killed)
    again = scene.attempt(scene.record())
    again.do(lambda context: False)
    assert again.warnings[1:] == [READ_NOTHING.format(what="slice 1 of 1")]
    assert "earlier attempt may have processed" in again.warnings[0]


@pytest.mark.parametrize(
    ("kind", "processed", "sent"),
    [(ATTEMPT, 0, 0), (PROCESSING, 0, 0), (PROCESSED, 1, 0), (COMMIT, 1, 1), (ENDED, 1, 1)],
)
def test_an_attempt_that_another_one_replaced_stops_at_its_next_entry(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: str, processed: int, sent: int
) -> None:
    scene.begin(size=0)
    record = scene.record()
    append = record.append

    def second(entry: str, **fields: Any) -> None:
        if entry == kind:
            scene.record().append(kind, slice=1, attempt=99, outcome=COMMITTED)
        append(entry, **fields)

    monkeypatch.setattr(record, "append", second)
    with pytest.raises(TakenOverError) as raised:
        scene.attempt(record).do(scene.process)
    assert raised.value.entry == kind
    assert (len(scene.seen), len(scene.group.altered)) == (processed, sent)
    assert scene.entries()[-1]["attempt"] == 99, "the other one's entry is the last"


UNSURE: dict[str, tuple[int, dict[str, bool], type[JobError], str]] = {
    "not a commit is kept": (0, {}, NotCommittedError, NOT_COMMITTED),
    "one of two is kept": (1, {}, NotVerifiedError, UNVERIFIED),
    "all are kept, and none can be read": (2, {"silent": True}, NotVerifiedError, UNVERIFIED),
    "none is kept, though it was answered": (0, {"answers": True}, NotVerifiedError, UNVERIFIED),
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("case", UNSURE)
def test_how_a_commit_failed_is_recorded_and_is_the_error_in_any_case(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, case: str, recorded: bool
) -> None:
    kept, answers, error, outcome = UNSURE[case]
    scene.begin(size=0)
    scene.group, record = Unsure(BEFORE, kept, **answers), scene.record()
    attempt, append = scene.attempt(record), record.append

    def fails(kind: str, **fields: Any) -> None:
        if kind == COMMIT:
            raise StorageError("the disk is full")
        append(kind, **fields)

    if not recorded:
        monkeypatch.setattr(record, "append", fails)
    with pytest.raises(error) as raised:
        attempt.do(scene.process)
    last = scene.entries()[-1]
    assert last["kind"] == (COMMIT if recorded else PROCESSED)
    summary = attempt.summary(failed=True)
    assert (summary["slices_processed"], summary["uncommitted"]) == (1, range_rows(BACKLOG.ranges))
    assert summary["outcome"] == (outcome if recorded else "failed")
    if recorded:
        assert (last["outcome"], last["why"]) == (outcome, str(raised.value))


@pytest.mark.parametrize("outcome", [None, NOT_COMMITTED, UNVERIFIED])
@pytest.mark.parametrize("commit", ["is there", "is not there", "is there in part"])
def test_what_a_restart_does_depends_on_the_last_outcome_and_on_the_group(
    scene: Scene, outcome: str | None, commit: str
) -> None:
    """A slice is processed again unless its commit is there, or was refused; nobody else's offsets are replaced."""
    scene.begin(size=0)
    record = scene.record()
    record.attempt(record.run.slices if record.run else ())
    record.append(PROCESSING, attempt=1, slice=1, ranges=range_rows(BACKLOG.ranges))
    record.append(PROCESSED, attempt=1, slice=1)
    if outcome is not None:
        record.append(COMMIT, attempt=1, slice=1, outcome=outcome, why="of this test")
    if commit != "is not there":
        scene.group.commits |= {A0: Commit(10)} if "part" in commit else {A0: Commit(10), A1: Commit(3)}
    if commit == "is there in part":
        with pytest.raises(
            JobError, match=r"is not where run \S+ left it, in 1 partition\(s\): a\[0\]: 4 then, 10 now"
        ):
            scene.work()
        assert (scene.seen, scene.group.altered, scene.kinds()[-1]) == ([], [], COMMIT if outcome else PROCESSED)
        return
    summary = scene.work().summary(failed=False)
    again = commit == "is not there" and outcome != NOT_COMMITTED
    assert [(one.slice, one.attempt, one.repeats) for one in scene.seen] == ([(1, 2, True)] if again else [])
    assert scene.group.altered == ([] if commit == "is there" else [{A0: 10, A1: 3}])
    assert (summary["outcome"], summary["uncommitted"]) == (COMMITTED, [])
    assert summary["repeats"] == (range_rows(BACKLOG.ranges) if again else [])
    settled = [entry for entry in scene.entries() if entry["kind"] == COMMIT][-1]
    assert (settled["outcome"], settled["attempt"]) == (COMMITTED, 2 if commit == "is not there" else 1)


def test_a_slice_that_cannot_be_committed_holds_up_those_after_it(scene: Scene) -> None:
    scene.begin()
    moved = {A0: Commit(8)}

    def somebody_commits(context: BacklogContext) -> bool:
        if context.slice == 2:
            scene.group.commits |= moved
        return scene.process(context)

    attempt = scene.attempt()
    with pytest.raises(NotCommittedError, match=r"moved meanwhile in 1 partition\(s\): a\[0\]: 7 then, 8 now"):
        attempt.do(somebody_commits)
    assert [one.slice for one in scene.seen] == [1, 2]
    assert scene.group.altered == [{A0: 7, A1: 1}]
    summary = attempt.summary(failed=True)
    assert (summary["outcome"], summary["slices_processed"], summary["slices_committed"]) == (NOT_COMMITTED, 2, 1)
    assert summary["uncommitted"] == range_rows(cut(BACKLOG, 4)[1].ranges)


def test_offsets_without_a_record_to_read_are_committed_and_nothing_is_processed(scene: Scene) -> None:
    record = Record()
    record.begin(REQUEST, BEFORE, Backlog(ranges=(), ends={A0: 10}), 0)
    attempt = scene.attempt(record)
    attempt.do(scene.process)
    assert (scene.seen, scene.group.altered) == ([], [{A0: 10}])
    summary = attempt.summary(failed=False)
    assert (summary["outcome"], summary["slices_committed"], summary["committed"]) == (COMMITTED, 1, 1)
    assert summary["record"] is None, "a restart knows nothing of it"


def test_a_group_that_moved_since_its_offsets_were_fetched_needs_them_fetched_again(scene: Scene) -> None:
    scene.begin(backlog_id="b")
    scene.group.commits |= {A0: Commit(5)}
    with pytest.raises(JobError, match=r"left it, in 1 partition\(s\): a\[0\]: 4 then, 5 now.*Fetch its offsets again"):
        scene.work()
    assert scene.seen == []


def test_a_transform_that_fails_leaves_its_slice_neither_processed_nor_committed(scene: Scene) -> None:
    scene.begin(size=0)
    scene.stop_in = "slice 1"
    attempt = scene.attempt()
    with pytest.raises(Killed):
        attempt.do(scene.process)
    summary = attempt.summary(failed=True)
    assert (summary["outcome"], summary["processed"], summary["uncommitted"]) == ("failed", [], [])
    assert (scene.kinds()[-1], scene.group.altered) == (PROCESSING, [])


def test_a_slice_whose_second_try_was_killed_is_not_processed_though_its_first_one_ended(scene: Scene) -> None:
    """The second try has replaced what the first one wrote."""
    scene.begin(size=0)
    scene.killed_while_committing("before")
    scene.killed_in("slice 1")
    assert scene.record().processed() == {}
    scene.work()
    assert [(one.slice, one.attempt, one.repeats) for one in scene.seen] == [(1, 1, False), (1, 2, True), (1, 3, True)]
