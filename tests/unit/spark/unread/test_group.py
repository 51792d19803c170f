"""What is asked for, what a group has not read, and commits for it only if nobody has used it meanwhile."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.observe.offset_values import Commit, Partition
from airflow_kafka_groups.spark.unread.group import (
    BacklogRequest,
    FetchedOffsets,
    GroupStatus,
    NotCommittedError,
    NotVerifiedError,
    Observed,
    TooLateError,
    commit_ends,
    look,
    offsets_to_commit,
    parse_fetched,
    plan,
    why_not_free,
)
from tests.unit.spark.unread.scene import A0, A1, B0, BEFORE, JOINED, ScriptedAdmin, Unsure

pytestmark = pytest.mark.safety

FREE = {A0: Commit(4), A1: Commit(9)}
OBSERVED = Observed(group_id="g", existing=frozenset(FREE), committed=FREE)
ENDS = {A0: 7, A1: 9}


def test_only_what_was_processed_is_committed() -> None:
    admin = ScriptedAdmin(FREE)
    assert commit_ends(admin, OBSERVED, ENDS) == {A0: 7}
    assert admin.altered == [{A0: 7}]
    assert offsets_to_commit(ENDS, {}) == {A0: 7, A1: 9}


@pytest.mark.parametrize(
    ("admin", "said"),
    [
        (ScriptedAdmin(FREE, JOINED), r"has 1 member\(s\)"),
        (ScriptedAdmin(FREE, GroupStatus("PREPARING_REBALANCE", 0)), "not Empty"),
        (ScriptedAdmin(FREE, GroupStatus("DEAD", 0)), "not Empty"),
        (ScriptedAdmin({A0: Commit(5), A1: Commit(9)}), r"moved meanwhile in 1 partition\(s\): a\[0\]: 4 then, 5"),
        (ScriptedAdmin({A0: Commit(4)}), r"a\[1\]: 9 then, no commit now"),
        (ScriptedAdmin({A0: Commit(4), A1: Commit(9, 3)}), r"moved meanwhile"),
        (ScriptedAdmin({A0: Commit(4), A1: Commit(9), B0: Commit(1)}), r"b\[0\]: no commit then, 1 now"),
    ],
)
def test_a_group_that_somebody_used_is_not_committed_for(admin: ScriptedAdmin, said: str) -> None:
    with pytest.raises(NotCommittedError, match=f"nothing was committed: .*{said}"):
        commit_ends(admin, OBSERVED, ENDS)
    assert admin.altered == []


def test_a_commit_that_reads_differently_is_an_outcome_of_its_own() -> None:
    with pytest.raises(NotVerifiedError, match="somebody else commits for this group") as raised:
        commit_ends(Unsure(FREE, 0, answers=True), OBSERVED, ENDS)
    assert raised.value.exit_code == 4


def test_a_commit_without_an_answer_is_settled_by_reading_the_group() -> None:
    both = {A0: 7, A1: 12}
    assert commit_ends(Unsure(FREE, 2), OBSERVED, both) == both
    with pytest.raises(NotCommittedError, match="nothing was committed: no answer"):
        commit_ends(Unsure(FREE, 0), OBSERVED, both)
    with pytest.raises(NotVerifiedError, match=r"a\[1\] of group 'g' was committed at 12 and reads 9: only a part"):
        commit_ends(Unsure(FREE, 1), OBSERVED, both)
    with pytest.raises(NotVerifiedError, match="the commit was sent, but it cannot be read back: no answer"):
        commit_ends(Unsure(FREE, 2, silent=True), OBSERVED, both)


class Late(ScriptedAdmin):
    """A client that finds at its last moment that the commit would leave too late; somebody has committed meanwhile."""

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        self.commits[A0] = Commit(20)
        raise TooLateError("it would leave too late")


def test_a_commit_that_is_too_late_was_not_sent_whatever_the_group_has_by_then() -> None:
    with pytest.raises(NotCommittedError, match="nothing was committed: it would leave too late"):
        commit_ends(Late(FREE), OBSERVED, ENDS)


def test_a_group_without_commits_may_not_exist_yet() -> None:
    admin = ScriptedAdmin(FREE, GroupStatus("DEAD", 0))
    assert why_not_free(admin, replace(OBSERVED, committed={})) is None
    assert why_not_free(admin, OBSERVED) is not None


GONE = Partition("gone", 0)
FETCHED = FetchedOffsets(backlog_id="b", kafka_cluster_id="k", group_id="g", committed=BEFORE, ends={A0: 6})

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
        json.dumps(GOOD | {"partitions": [{"topic": "a"}]}),
        json.dumps(GOOD).replace('"committed_offset": 4', '"committed_offset": -1001'),
        json.dumps(GOOD).replace('"log_end": 7', '"log_end": "7"'),
    ],
)
def test_a_damaged_file_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--backlog \(got 'x.json'\).*fetch them again"):
        parse_fetched(text, "x.json")


ASKED = BacklogRequest(group_id="g")


def test_the_group_is_looked_at_in_all_partitions_of_its_topics_and_of_those_that_are_asked_for() -> None:
    admin = ScriptedAdmin({A0: Commit(4), GONE: Commit(1)})
    observed = look(admin, replace(ASKED, topics=frozenset("b")))
    assert observed.existing == {A0, A1, B0}
    assert observed.committed == {A0: Commit(4), GONE: Commit(1)}
    assert observed.partitions == {A0, A1, B0, GONE}


@pytest.mark.parametrize(
    ("admin", "topics", "said"),
    [
        (ScriptedAdmin({}), "", "group 'g' has no commits to be seen: name its topics by --topic"),
        (ScriptedAdmin(), "c", r"--topic \(got 'c'\): there is no such topic"),
        (ScriptedAdmin(status=JOINED), "", r"has 1 member\(s\): stop its consumers first"),
        (ScriptedAdmin(status=GroupStatus("DEAD", 0)), "", "is in the state Dead, not Empty"),
    ],
)
def test_a_group_that_cannot_be_processed_is_refused_before_anything_is_read(
    admin: ScriptedAdmin, topics: str, said: str
) -> None:
    with pytest.raises(JobError, match=said):
        look(admin, replace(ASKED, topics=frozenset(topics)))


def test_partitions_of_a_topic_are_no_topic() -> None:
    with pytest.raises(JobError, match=r"--topic \(got 'c:0,1'\): is no name of a topic: write 'c'"):
        look(ScriptedAdmin(), replace(ASKED, topics=frozenset({"c:0,1"})))


def test_a_topic_that_is_gone_may_be_asked_for_if_the_group_has_commits_in_it() -> None:
    admin = ScriptedAdmin({GONE: Commit(1)})
    request = replace(ASKED, topics=frozenset({GONE.topic}))
    assert look(admin, request).existing == frozenset()
    with pytest.raises(JobError, match="Decide by --on-missing-topic skip"):
        plan(admin, request, look(admin, request))


@pytest.mark.parametrize(
    ("request_", "ends", "hidden"),
    [
        (ASKED, {A0: 8, A1: 3, B0: 9}, 2),
        (replace(ASKED, isolation_level="read_uncommitted"), {A0: 10, A1: 3, B0: 9}, 0),
        (replace(ASKED, topics=frozenset("a")), {A0: 8, A1: 3}, 2),
        (replace(ASKED, topics=frozenset("b")), {B0: 9}, 0),
        (replace(ASKED, fetched=FETCHED), {A0: 6, A1: 3, B0: 9}, 0),
        (replace(ASKED, fetched=replace(FETCHED, ends={A0: 9})), {A0: 8, A1: 3, B0: 9}, 1),
    ],
)
def test_what_is_read_ends_where_the_request_the_fetched_ends_and_open_transactions_say(
    request_: BacklogRequest, ends: dict[Partition, int], hidden: int
) -> None:
    admin = ScriptedAdmin()
    admin.stable = {A0: 8}
    backlog = plan(admin, request_, look(admin, request_))
    assert (backlog.ends, backlog.hidden) == (ends, hidden)


def test_a_group_that_moved_since_its_offsets_were_fetched_is_refused() -> None:
    admin, request = ScriptedAdmin(BEFORE | {A0: Commit(5)}), replace(ASKED, fetched=FETCHED)
    said = r"moved since its offsets were fetched, in 1 partition\(s\): a\[0\]: 4 then, 5 now. Fetch them again"
    with pytest.raises(JobError, match=said):
        plan(admin, request, look(admin, request))


@pytest.mark.parametrize(
    "wrong",
    [{"max_records_per_slice": -1}, {"fetched": replace(FETCHED, group_id="other")}],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        BacklogRequest(group_id="g", **wrong)
