"""A driver that stood still between its look at the group and the commit, which others made meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_kafka_groups.observe.offset_values import Commit, Partition
from airflow_kafka_groups.spark.kafka import admin as client
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.unread import commit
from airflow_kafka_groups.spark.unread.commit import GroupStatus, NotCommittedError, NotVerifiedError, commit_ends
from tests.unit.spark.unread.scene import A0, A1
from tests.unit.spark.unread.test_commit import ENDS, OBSERVED

pytestmark = [pytest.mark.spark, pytest.mark.safety]


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
