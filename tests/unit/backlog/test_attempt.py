"""Attempts at a run: what is processed, recorded and committed, in which order, and what is not."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.arrow.errors import JobError
from airflow_kafka_groups.arrow.offsets import Commit, Partition, Range
from airflow_kafka_groups.backlog.attempt import ENDED_BEFORE
from airflow_kafka_groups.backlog.commit import NotCommittedError
from airflow_kafka_groups.backlog.record import NOT_COMMITTED, PROCESSED, TakenOverError
from airflow_kafka_groups.backlog.slices import cut, range_rows
from tests.unit.backlog.scene import A0, A1, B0, BACKLOG, BEFORE, EMPTY, JOINED, Killed, Scene

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
    scene.group.dies = "before"
    with pytest.raises(Killed):
        scene.work()
    scene.group.commits |= moved
    with pytest.raises(
        JobError, match=r"is not where run \S+ left it.*Then begin at its present commits by --start-over"
    ):
        scene.work()
    assert len(scene.seen) == 1
    assert scene.kinds()[-1] == "processed", "nothing is recorded either"


def test_without_commits_a_restart_goes_by_the_record_alone(scene: Scene) -> None:
    scene.begin(commit=False)
    scene.stop_in = "slice 3"
    with pytest.raises(Killed):
        scene.work()
    scene.stop_in = ""
    summary = scene.work().summary(failed=False)
    assert [one.slice for one in scene.seen] == [1, 2, 3, 3]
    assert (summary["outcome"], scene.group.commits) == ("processed", BEFORE)
    count = len(scene.kinds())
    work = scene.work()
    assert (work.summary(failed=False), len(scene.kinds())) == (summary, count), "reported again, and not done again"
    assert work.warnings == [ENDED_BEFORE.format(run_id=summary["run_id"])], "another --output has nothing of it"


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


def test_a_later_attempt_of_a_new_run_names_what_the_run_before_processed(scene: Scene) -> None:
    scene.begin()
    scene.stop_in = "slice 3"
    with pytest.raises(Killed):
        scene.work()
    scene.group.commits = dict(BEFORE)  # it is set back, and everything is to be processed again
    scene.begin()
    scene.seen.clear()
    scene.stop_in = "slice 1"
    with pytest.raises(Killed):
        scene.work()
    scene.stop_in = ""
    scene.work()
    attempts = [(one.slice, one.attempt, one.repeats) for one in scene.seen]
    assert attempts == [(1, 1, True), (1, 2, True), (2, 2, True), (3, 2, True)]
