"""What a group member says and does: the callbacks of Kafka's Coordinator interface, in Python names.

The group protocol is four steps: every member registers with metadata; the coordinator picks a leader and a protocol;
the leader makes an assignment for all; every member gets its own. The bytes of metadata and assignment belong to those
who implement ``GroupMember``: Kafka carries them and does not look inside.

The order of the calls, for each round (a round is a join or a rejoin)::

    on_join_prepare -> metadata -> [perform_assignment, if leader] -> on_join_complete      ... on_leave_prepare

Calls never overlap. Each may be a plain method, which then runs in a thread, or a coroutine. Heartbeats go on
meanwhile, so a callback may take as long as the rebalance timeout; after that the others go on without this member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.protocol.membership_apis.join_group import JoinedMember

__all__ = ["GroupMember", "GroupProtocol", "JoinedMember", "check_protocols"]


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """Be one protocol a member can take part in.

    :param name: e.g. ``range``; the coordinator picks one that every member has.
    :param metadata: what the leader is to know of this member when that protocol is picked.
    """

    name: str
    metadata: bytes = b""


class GroupMember(ABC):
    """Be one member of a group. Implement it, and run it with ``MemberSession``.

    An exception in a callback ends the membership with ``CallbackFailedError`` and the group is left; but
    ``on_join_complete`` is tried again first, and one in ``on_leave_prepare`` is only logged.
    """

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """Name the class of protocols, e.g. ``consumer`` or ``connect``; the same for all members of a group."""

    @abstractmethod
    def metadata(self) -> Sequence[GroupProtocol] | Awaitable[Sequence[GroupProtocol]]:
        """Give the protocols this member can take part in, the most preferred first; at least one.

        Asked before each JoinGroup, so more than once in a round when the coordinator has to be asked again.
        """

    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None:  # noqa: B027  # may stay empty
        """Clean up after the previous generation; called once before each round.

        :param generation: the previous generation, -1 if there was none: at the first join, and after the group went on
            without this member, so that whatever it held may be another's by now.
        :param member_id: its id in that generation, "" if there was none.
        """

    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]:
        """Make the assignment of every member; called on the leader only.

        :param leader_id: the id of the leader, which is this member.
        :param protocol: the protocol the coordinator picked.
        :param all_member_metadata: all members with their metadata for that protocol.

        Give each member id exactly one entry, ``b""`` for nothing. Else ``InvalidAssignmentError`` names what is wrong,
        nothing is sent, and the group is left.
        """

    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None:
        """Take the assignment the leader gave this member and begin to work with it.

        After an exception it is called again with the same state, after a pause, as long as the generation lives.

        :param generation: the generation that was joined.
        :param member_id: the id of this member in the group.
        :param protocol: the protocol the coordinator picked.
        :param assignment: what the leader gave this member.
        """

    def on_leave_prepare(self) -> Awaitable[None] | None:  # noqa: B027  # may stay empty
        """Clean up before the group is left, for at most a session timeout: heartbeats have come to their end."""


def check_protocols(protocols: Sequence[GroupProtocol]) -> None:
    """Refuse protocols that cannot be joined with, before anything is sent.

    Raises ``ConfigurationError``.
    """
    names = [protocol.name for protocol in protocols]
    if not names:
        raise ConfigurationError("metadata()", names, "give at least one protocol")
    if not all(names):
        raise ConfigurationError("metadata()", names, "every protocol needs a name")
    if len(set(names)) != len(names):
        raise ConfigurationError("metadata()", names, "name each protocol once")
    for protocol in protocols:
        if not isinstance(protocol.metadata, bytes):
            raise ConfigurationError(f"metadata() of {protocol.name}", protocol.metadata, "the metadata must be bytes")
