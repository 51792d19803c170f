"""Brokers, coordinators and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

BrokerId: TypeAlias = int


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class CoordinatorType(IntEnum):
    """The kind of key that a coordinator is looked up for (KIP-699; SHARE since KIP-932)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker of the cluster."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """The address as ``host:port``."""
        return f"{self.host}:{self.port}"
