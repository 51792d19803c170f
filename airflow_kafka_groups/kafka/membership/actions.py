"""The actions that state.py requests and session.py performs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.protocol.answers import JoinedMember


class Phase(Enum):
    """The phase of a membership."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    COMPLETING = "completing"
    STABLE = "stable"
    FAILED = "failed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Synced:
    """The assignment of this member, and when the coordinator last confirmed it.

    ``confirmed_at`` is when the confirming request was *sent*, so it is never later than the confirmation. After a
    silence it may be earlier.
    """

    generation: int
    member_id: str
    protocol: str
    assignment: bytes
    confirmed_at: float

    def confirmed(self, sent_at: float, most: float) -> Synced:
        """Return this assignment, confirmed by an answer for no more than so many seconds longer than before.

        A broker that was suspended together with this member answers as if it still were the coordinator. Its successor
        has waited for a session timeout since the confirmation before, and not since this one. Before the first one, it
        has waited since JoinGroup was sent.
        """
        return replace(self, confirmed_at=min(sent_at, self.confirmed_at + most))


@dataclass(frozen=True, slots=True)
class Prepare:
    """A call of ``on_join_prepare``."""

    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Find:
    """The lookup of the coordinator."""


@dataclass(frozen=True, slots=True)
class Join:
    """A call of ``metadata``, followed by JoinGroup."""


@dataclass(frozen=True, slots=True)
class Assign:
    """A call of ``perform_assignment``."""

    leader_id: str
    protocol: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup request."""


@dataclass(frozen=True, slots=True)
class Complete:
    """A call of ``on_join_complete``."""

    generation: int
    member_id: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause until a given time, or until something changes."""

    until: float


@dataclass(frozen=True, slots=True)
class Idle:
    """A pause until something changes."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the membership: the group is left."""

    error: KafkaGroupsError


Action: TypeAlias = Prepare | Find | Join | Assign | Sync | Complete | Pause | Idle | Stop


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat that was sent. ``holding``: whether the member had its assignment at that time."""

    generation: int
    member_id: str
    holding: bool
    sent_at: float
