"""The callbacks of a group member (Kafka's Coordinator interface, with Python names) and the options of a membership.

The order of the calls in each round (a join or a rejoin)::

    on_join_prepare -> metadata -> [perform_assignment, if leader] -> on_join_complete      ... on_leave_prepare

Calls never overlap. Each is either a plain method, which runs in a thread, or a coroutine. Heartbeats continue
meanwhile, so a callback may take up to the rebalance timeout; after that the group continues without this member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.protocol.answers import JoinedMember

__all__ = ["GroupMember", "GroupProtocol", "JoinedMember", "MemberOptions"]


_HEARTBEATS_PER_SESSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """All settings of a membership except its callbacks.

    :param group_id: the group to join.
    :param group_instance_id: makes the membership static (KIP-345): the member can return under this name within the
        session timeout without a rebalance, so it sends no LeaveGroup when it stops. Default: dynamic.
    :param session_timeout: seconds without a heartbeat after which the coordinator removes the member. By default
        brokers accept 6 s to 30 min. Default 45.
    :param rebalance_timeout: seconds that the group waits for this member to rejoin, including its callbacks. Default
        60.
    :param heartbeat_interval: seconds between heartbeats. Default 3.
    :param retry_backoff: seconds to wait after the first failure, doubled after each further one. Default 0.1.
    :param max_backoff: maximum seconds between two retries. Default 1.
    :param callback_tries: calls of ``on_join_complete`` with the same arguments before its error ends the membership.
        Default 5.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout: float = 45.0
    rebalance_timeout: float = 60.0
    heartbeat_interval: float = 3.0
    retry_backoff: float = 0.1
    max_backoff: float = 1.0
    callback_tries: int = 5

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigurationError("group_id", self.group_id, "must be the id of a group, not empty")
        for field in ("session_timeout", "rebalance_timeout", "heartbeat_interval", "retry_backoff", "max_backoff"):
            if not 0 < getattr(self, field) < 2**31 / 1000:
                raise ConfigurationError(field, getattr(self, field), "must be a number of seconds above 0")
        if self.heartbeat_interval * _HEARTBEATS_PER_SESSION > self.session_timeout:
            remedy = f"must be at most a third of session_timeout ({self.session_timeout:g} s): one may get lost"
            raise ConfigurationError("heartbeat_interval", self.heartbeat_interval, remedy)
        if self.rebalance_timeout < self.session_timeout:
            remedy = f"must be at least session_timeout ({self.session_timeout:g} s)"
            raise ConfigurationError("rebalance_timeout", self.rebalance_timeout, remedy)


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """A protocol that a member supports.

    :param name: e.g. ``range``. The coordinator picks one that every member supports.
    :param metadata: this member's metadata for the leader, used when the protocol is picked.
    """

    name: str
    metadata: bytes = b""


class GroupMember(ABC):
    """A member of a group. Implement it, and run it with ``MemberSession``.

    An exception in a callback ends the membership with ``CallbackFailedError``, and the group is left. Two exceptions:
    ``on_join_complete`` is retried first, and an error in ``on_leave_prepare`` is only logged.
    """

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The class of protocols, e.g. ``consumer`` or ``connect``. All members of a group have the same."""

    @abstractmethod
    def metadata(self) -> Sequence[GroupProtocol] | Awaitable[Sequence[GroupProtocol]]:
        """Return the supported protocols, at least one, the most preferred first. Called before each JoinGroup."""

    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None:  # noqa: B027  # may stay empty
        """Clean up after the previous generation. Called once before each round.

        :param generation: the previous generation. -1 at the first join, and after the group removed this member; its
            former assignment may then belong to another member.
        :param member_id: its id in that generation, "" if there was none.
        """

    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]:
        """Return the assignment of every member. Called on the leader only.

        :param leader_id: the id of the leader, which is this member.
        :param all_member_metadata: all members with their metadata for the protocol that the coordinator picked.

        Each member id needs exactly one entry, ``b""`` for nothing. Otherwise nothing is sent, the group is left, and
        the membership ends with ``InvalidAssignmentError``.
        """

    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None:
        """Start to work with the assignment of this member from the leader.

        After an exception it is called again with the same arguments, after a pause, while the generation is current.
        """

    def on_leave_prepare(self) -> Awaitable[None] | None:  # noqa: B027  # may stay empty
        """Clean up before the group is left, within one session timeout: heartbeats have stopped.

        A static member is called, too, when it stops: it sends no LeaveGroup afterwards, and may return.
        """
