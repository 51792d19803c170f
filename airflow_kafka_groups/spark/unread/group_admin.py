"""What is asked of Kafka about a group. ``spark.kafka.admin`` asks by the client of Spark's connector."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition


class TooLateError(JobError):
    """A commit did not leave in time, and so was not sent."""


class GroupStatus(NamedTuple):
    """The state of a group, ``DEAD`` if it does not exist, and the number of its members."""

    state: str
    members: int


class GroupAdmin(Protocol):
    """A client that reads a group and commits for it. Each call may raise ``JobError``."""

    def state(self, group_id: str) -> GroupStatus:
        """Describe the group; a group that does not exist is ``DEAD``."""
        ...

    def known(self, group_id: str) -> set[Partition]:
        """Return the partitions in which the group has commits visible to this user."""
        ...

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        """Return the commits of these partitions; partitions without a commit are omitted.

        Raises ``JobError`` if any cannot be read, e.g. because of an open transaction.
        """
        ...

    def partitions(self, topics: Collection[str]) -> set[Partition]:
        """Return all partitions of these topics; topics that do not exist have none."""
        ...

    def log_ends(self, partitions: Iterable[Partition], *, read_committed: bool = True) -> dict[Partition, LogEnds]:
        """Return the log start and end of each partition, the end before the first open transaction by default."""
        ...

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        """Commit offsets for a group without members; brokers refuse it for others.

        :param deadline: until when the request may leave, retries included, by ``time.monotonic()``: the group was read
            before, and somebody else may commit meanwhile.

        Raises ``TooLateError`` if that has passed.
        """
        ...
