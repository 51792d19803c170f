"""What to read of a group's backlog, on literal offsets; every case that is not plain is decided by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_kafka_groups.arrow.errors import ArgumentError, JobError
from airflow_kafka_groups.arrow.offsets import Commit, LogEnds, Partition, Range
from airflow_kafka_groups.backlog import commit
from airflow_kafka_groups.backlog.commit import (
    NotCommittedError,
    NotVerifiedError,
    Observed,
    commit_ends,
    offsets_to_commit,
    why_not_free,
)
from airflow_kafka_groups.backlog.group_admin import GroupStatus
from airflow_kafka_groups.backlog.ranges import Backlog, BacklogPolicy, plan_backlog
from airflow_kafka_groups.backlog.request import parse_fetched
from airflow_kafka_groups.spark.kafka import admin as client
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.kafka.reader import source_options

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)


def plan(committed: dict[Partition, int], logs: dict[Partition, tuple[int, int]], **given: Any) -> Backlog:
    policy = BacklogPolicy(**{name: given.pop(name) for name in list(given) if name.startswith("on_")})
    return plan_backlog(
        {where: Commit(offset) for where, offset in committed.items()},
        {where: LogEnds(*ends) for where, ends in logs.items()},
        policy,
        **given,
    )


def test_what_lies_between_commit_and_end_is_read_and_nothing_else() -> None:
    found = plan({A0: 4, A1: 9, B0: 0}, {A0: (0, 10), A1: (2, 9), B0: (0, 0)})
    assert found.ranges == (Range(A0, 4, 10),)
    assert found.ends == {A0: 10, A1: 9, B0: 0}
    assert (found.counts()["offsets"], found.counts()["partitions_with_backlog"], found.decided) == (6, 1, ())


def test_the_ends_of_before_bound_the_read_but_never_take_a_commit_back() -> None:
    found = plan({A0: 4, A1: 9}, {A0: (0, 10), A1: (2, 12)}, until={A0: 7, A1: 3})
    assert found.ranges == (Range(A0, 4, 7),)
    assert found.ends == {A0: 7, A1: 9}


CASES = {
    "no commit": ({A0: 4}, {A0: (0, 5), A1: (1, 9)}, "on_no_commit", r"a\[1\] has no commit"),
    "data lost": ({A0: 4}, {A0: (6, 9)}, "on_data_loss", r"a\[0\] is committed at 4, and its log starts at 6"),
    "beyond the end": ({A0: 40}, {A0: (6, 9)}, "on_beyond_end", r"a\[0\] is committed at 40, beyond its end 9"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_plain_stops_the_job_and_names_the_option(case: str) -> None:
    committed, logs, name, said = CASES[case]
    with pytest.raises(JobError, match=rf"{said}.*Decide by --{name.replace('_', '-')} "):
        plan(committed, logs)


@pytest.mark.parametrize(
    ("case", "decision", "ranges", "ends"),
    [
        ("no commit", "from-start", (Range(A0, 4, 5), Range(A1, 1, 9)), {A0: 5, A1: 9}),
        ("no commit", "from-end", (Range(A0, 4, 5),), {A0: 5, A1: 9}),
        ("data lost", "skip-to-start", (Range(A0, 6, 9),), {A0: 9}),
        ("beyond the end", "from-start", (Range(A0, 6, 9),), {A0: 9}),
        ("beyond the end", "skip", (), {}),
    ],
)
def test_a_decision_is_followed_and_told(
    case: str, decision: str, ranges: tuple[Range, ...], ends: dict[Partition, int]
) -> None:
    committed, logs, name, _ = CASES[case]
    found = plan(committed, logs, **{name: decision})
    assert (found.ranges, found.ends) == (ranges, ends)
    assert decision in found.decided[0]
    assert found.lost == ({A0: 2} if decision == "skip-to-start" else {})


def test_a_topic_that_is_gone_stops_the_job_or_is_left_out() -> None:
    with pytest.raises(JobError, match=r"b\[0\] does not exist any more. Decide by --on-missing-topic skip"):
        plan({A0: 4, B0: 1}, {A0: (0, 5)}, missing={B0})
    assert plan({A0: 4, B0: 1}, {A0: (0, 5)}, missing={B0}, on_missing_topic="skip").ends == {A0: 5}


def test_a_partition_without_known_ends_is_never_guessed() -> None:
    with pytest.raises(JobError, match=r"the ends of b\[0\] are not known"):
        plan({A0: 4, B0: 1}, {A0: (0, 5)})


def test_all_objections_come_at_once() -> None:
    with pytest.raises(JobError, match=r"on-data-loss.*on-no-commit"):
        plan({A0: 4}, {A0: (6, 9), A1: (0, 1)})


def test_a_decision_that_is_not_known_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"--on-data-loss \(got 'ignore'\): give one of fail, skip-to-start"):
        BacklogPolicy(on_data_loss="ignore")


def test_the_source_gets_the_ranges_that_are_not_empty() -> None:
    options = source_options([Range(A0, 4, 7), Range(A1, 3, 3), Range(B0, 0, 2)])
    assert {name: json.loads(text) for name, text in options.items()} == {
        "assign": {"a": [0], "b": [0]},
        "startingOffsets": {"a": {"0": 4}, "b": {"0": 0}},
        "endingOffsets": {"a": {"0": 7}, "b": {"0": 2}},
    }
    with pytest.raises(JobError, match="same partition"):
        source_options([Range(A0, 0, 1), Range(A0, 2, 3)])


class FakeAdmin(KafkaAdmin):
    """Answer as scripted; the real one is asked in test_process_backlog.py."""

    def __init__(self, *, state: GroupStatus | None = None, **changes: Any) -> None:
        self.group = state or GroupStatus("EMPTY", 0)
        self.commits = {A0: Commit(4), A1: Commit(9)}
        self.keep_writes = True
        self.altered: dict[Partition, int] = {}
        for name, value in changes.items():
            setattr(self, name, value)

    def state(self, group_id: str) -> GroupStatus:
        return self.group

    def known(self, group_id: str) -> set[Partition]:
        return set(self.commits)

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        return {where: self.commits[where] for where in partitions if where in self.commits}

    def alter(self, group_id: str, offsets: Any, deadline: float) -> None:
        self.altered = dict(offsets)
        if self.keep_writes:
            self.commits |= {where: Commit(offset) for where, offset in offsets.items()}


OBSERVED = Observed(group_id="g", existing=frozenset({A0, A1}), committed={A0: Commit(4), A1: Commit(9)})
ENDS = {A0: 7, A1: 9}


def test_only_what_was_processed_is_committed() -> None:
    admin = FakeAdmin()
    assert commit_ends(admin, OBSERVED, ENDS) == {A0: 7}
    assert admin.altered == {A0: 7}
    assert offsets_to_commit(ENDS, {}) == {A0: 7, A1: 9}


@pytest.mark.parametrize(
    ("admin", "said"),
    [
        (FakeAdmin(state=GroupStatus("STABLE", 1)), r"has 1 member\(s\)"),
        (FakeAdmin(state=GroupStatus("PREPARING_REBALANCE", 0)), "not Empty"),
        (FakeAdmin(state=GroupStatus("DEAD", 0)), "not Empty"),
        (FakeAdmin(commits={A0: Commit(5), A1: Commit(9)}), r"moved meanwhile in 1 partition\(s\): a\[0\]: 4 then, 5"),
        (FakeAdmin(commits={A0: Commit(4)}), r"a\[1\]: 9 then, no commit now"),
        (FakeAdmin(commits={A0: Commit(4), A1: Commit(9, 3)}), r"moved meanwhile"),
        (FakeAdmin(commits={A0: Commit(4), A1: Commit(9), B0: Commit(1)}), r"b\[0\]: no commit then, 1 now"),
    ],
)
def test_a_group_that_somebody_used_is_not_committed_for(admin: FakeAdmin, said: str) -> None:
    with pytest.raises(NotCommittedError, match=f"nothing was committed: .*{said}"):
        commit_ends(admin, OBSERVED, ENDS)
    assert admin.altered == {}


def test_a_commit_that_reads_differently_is_an_outcome_of_its_own() -> None:
    with pytest.raises(NotVerifiedError, match="somebody else commits for this group") as raised:
        commit_ends(FakeAdmin(keep_writes=False), OBSERVED, ENDS)
    assert raised.value.exit_code == 4


class Unsure(FakeAdmin):
    """Fail the commit after so many of its partitions are committed, and perhaps each reading after it."""

    def __init__(self, kept: int, *, silent: bool = False) -> None:
        super().__init__()
        self.kept, self.silent = kept, silent

    def alter(self, group_id: str, offsets: Any, deadline: float) -> None:
        super().alter(group_id, dict(sorted(offsets.items())[: self.kept]), deadline)
        self.group = GroupStatus("EMPTY", 0) if not self.silent else GroupStatus("GONE", 0)
        raise JobError("no answer")

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        if self.group.state == "GONE":
            raise JobError("no reading either")
        return super().committed(group_id, partitions)


def test_a_commit_without_an_answer_is_settled_by_reading_the_group() -> None:
    both = {A0: 7, A1: 12}
    assert commit_ends(Unsure(2), OBSERVED, both) == both
    with pytest.raises(NotCommittedError, match="nothing was committed: no answer"):
        commit_ends(Unsure(0), OBSERVED, both)
    with pytest.raises(NotVerifiedError, match=r"a\[1\] of group 'g' was committed at 12 and reads 9: only a part"):
        commit_ends(Unsure(1), OBSERVED, both)
    with pytest.raises(NotVerifiedError, match="the commit was sent, but it cannot be read back: no answer"):
        commit_ends(Unsure(2, silent=True), OBSERVED, both)


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


def test_a_group_without_commits_may_not_exist_yet() -> None:
    admin = FakeAdmin(state=GroupStatus("DEAD", 0))
    assert why_not_free(admin, replace(OBSERVED, committed={})) is None
    assert why_not_free(admin, OBSERVED) is not None


GOOD = {
    "format": 1,
    "backlog_id": "b",
    "kafka_cluster_id": "k",
    "group_id": "g",
    "partitions": [
        {"topic": "a", "partition": 0, "committed_offset": 4, "leader_epoch": None, "metadata": "", "log_end": 7}
    ],
}


def test_fetched_offsets_are_read() -> None:
    fetched = parse_fetched(json.dumps(GOOD), "x.json")
    assert (fetched.group_id, fetched.committed, fetched.ends) == ("g", {A0: Commit(4)}, {A0: 7})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps(GOOD | {"format": 2}),
        json.dumps(GOOD | {"group_id": ""}),
        json.dumps(GOOD | {"partitions": GOOD["partitions"] * 2}),  # type: ignore[operator]
        json.dumps(GOOD | {"partitions": [{"topic": "a"}]}),
        json.dumps(GOOD).replace('"committed_offset": 4', '"committed_offset": -1001'),
        json.dumps(GOOD).replace('"log_end": 7', '"log_end": "7"'),
    ],
)
def test_a_damaged_file_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--backlog \(got 'x.json'\).*fetch them again"):
        parse_fetched(text, "x.json")
