"""A group as its brokers keep it, the record of its backlog, and attempts at it that end where a test says."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition, Range
from airflow_kafka_groups.spark.unread.group import GroupStatus, Observed, OffsetsClient
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogContext
from airflow_kafka_groups.spark.unread.run import Attempt, Record, Run, open_record
from airflow_kafka_groups.storage.file_storage import LocalStorage

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
BACKLOG = Backlog(ranges=(Range(A0, 4, 10), Range(A1, 0, 3)), ends={A0: 10, A1: 3, B0: 9})
BEFORE = {A0: Commit(4), A1: Commit(0), B0: Commit(9, 2, "m")}
LOGS = {A0: LogEnds(0, 10), A1: LogEnds(0, 3), B0: LogEnds(0, 9)}
EMPTY, JOINED = GroupStatus("EMPTY", 0), GroupStatus("STABLE", 1)
REQUEST: dict[str, Any] = {
    "group_id": "g",
    "topics": [],
    "backlog_id": None,
    "isolation_level": "read_committed",
    "commit": True,
}


class Killed(Exception):
    """The process ends here."""


class ScriptedAdmin(OffsetsClient):
    """A group as its brokers keep it.

    :param commits: its commits; each reading has all of them.
    :param status: its state and the number of its members.
    :param logs: the logs of all partitions that exist.
    """

    def __init__(
        self,
        commits: Mapping[Partition, Commit] = BEFORE,
        status: GroupStatus = EMPTY,
        logs: Mapping[Partition, LogEnds] = LOGS,
    ) -> None:
        self.commits, self.status, self.logs = dict(commits), status, dict(logs)
        self.altered: list[dict[Partition, int]] = []
        self.stable: dict[Partition, int] = {}
        """Where an open transaction begins."""
        self.dies = ""
        """``before`` or ``after`` the next commits are stored."""

    def state(self, group_id: str) -> GroupStatus:
        return self.status

    def known(self, group_id: str) -> set[Partition]:
        return set(self.commits)

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        return {where: self.commits[where] for where in partitions if where in self.commits}

    def partitions(self, topics: Collection[str]) -> set[Partition]:
        return {where for where in self.logs if where.topic in topics}

    def log_ends(self, partitions: Iterable[Partition], *, read_committed: bool = True) -> dict[Partition, LogEnds]:
        ends = {where: self.logs[where] for where in partitions}
        return {
            where: log._replace(end=self.stable.get(where, log.end)) if read_committed else log
            for where, log in ends.items()
        }

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        self.altered.append(dict(offsets))
        if self.dies == "before":
            raise Killed
        self.commits |= {where: Commit(offset) for where, offset in offsets.items()}
        if self.dies == "after":
            raise Killed


class Unsure(ScriptedAdmin):
    """A coordinator that stores the commits of so many partitions only.

    :param answers: whether it answers the commit, nevertheless.
    :param silent: whether it answers no reading after it.
    """

    def __init__(
        self, commits: Mapping[Partition, Commit], kept: int, *, answers: bool = False, silent: bool = False
    ) -> None:
        super().__init__(commits)
        self.kept, self.answers, self.silent = kept, answers, silent

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        super().alter(group_id, dict(sorted(offsets.items())[: self.kept]), deadline)
        if not self.answers:
            raise JobError("no answer")

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        if self.altered and self.silent:
            raise JobError("no reading either")
        return super().committed(group_id, partitions)


class Scene:
    """A record in a folder, a group, and what its attempts processed."""

    def __init__(self, folder: Path) -> None:
        self.storage, self.folder = LocalStorage(), folder
        self.group = ScriptedAdmin()
        self.seen: list[BacklogContext] = []
        self.warned: list[str] = []
        self.stop_in = ""

    def record(self) -> Record:
        return open_record(self.storage, str(self.folder), "k", "g")

    def begin(self, *, size: int = 4, **asked: Any) -> Run:
        return self.record().begin(REQUEST | asked, dict(self.group.commits), BACKLOG, size)

    def attempt(self, record: Record | None = None) -> Attempt:
        """Return an attempt at the recorded run, of a process that looks at the group now."""
        record = record or self.record()
        assert record.run is not None
        observed = Observed(group_id="g", existing=frozenset(BEFORE), committed=dict(self.group.commits))
        return Attempt(self.group, record, record.run, observed, "k", self.warned.append)

    def process(self, context: BacklogContext) -> bool:
        self.seen.append(context)
        if self.stop_in == f"slice {context.slice}":
            raise Killed
        return True

    def work(self) -> Attempt:
        attempt = self.attempt()
        attempt.do(self.process)
        return attempt

    def killed_in(self, place: str) -> None:
        """Let an attempt die where it processes a slice."""
        self.stop_in = place
        with pytest.raises(Killed):
            self.work()
        self.stop_in = ""

    def killed_while_committing(self, when: str) -> None:
        self.group.dies = when
        with pytest.raises(Killed):
            self.work()
        self.group.dies = ""

    def entries(self, run: int = 1) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob(f"*/{run:06d}/*.json"))]

    def kinds(self) -> list[str]:
        return [entry["kind"] for entry in self.entries()]
