"""A commit is sent only for a group that nobody has used meanwhile, and counts only if it reads back."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from airflow_kafka_groups.observe.offset_values import Commit, Partition
from airflow_kafka_groups.spark.unread.commit import (
    GroupStatus,
    NotCommittedError,
    NotVerifiedError,
    Observed,
    TooLateError,
    commit_ends,
    offsets_to_commit,
    why_not_free,
)
from tests.unit.spark.unread.scene import A0, A1, B0, JOINED, ScriptedAdmin, Unsure

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
