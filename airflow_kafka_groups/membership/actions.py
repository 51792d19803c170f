"""What a membership asks to be done next: the words between state.py, which decides, and session.py, which acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.protocol.membership_apis.join_group import JoinedMember


class Phase(Enum):
    """Say where a membership stands."""

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
    """Be what the leader gave this member, and the time of the last request in which the coordinator confirmed it.

    ``confirmed_at`` is when that request was *sent*: the coordinator was asked no earlier than that.
    """

    generation: int
    member_id: str
    protocol: str
    assignment: bytes
    confirmed_at: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """Call ``on_join_prepare``."""

    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Find:
    """Find the coordinator."""


@dataclass(frozen=True, slots=True)
class Join:
    """Call ``metadata`` and send JoinGroup."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Call ``perform_assignment``."""

    leader_id: str
    protocol: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """Send SyncGroup."""


@dataclass(frozen=True, slots=True)
class Complete:
    """Call ``on_join_complete``."""

    generation: int
    member_id: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing until then, or until something happens."""

    until: float


@dataclass(frozen=True, slots=True)
class Idle:
    """Do nothing until something happens."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the group: the membership has come to its end."""

    error: KafkaGroupsError


Step: TypeAlias = Prepare | Find | Join | Assign | Sync | Complete | Pause | Idle | Stop


@dataclass(frozen=True, slots=True)
class Beat:
    """Be a heartbeat that was sent; ``holding`` says that the member had its assignment by then."""

    generation: int
    member_id: str
    holding: bool
    sent_at: float
