"""What the driver hands out, and what bounds it: one request to send, the limits, the weights of keys."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_groups.admin.engine.handler import AdminHandler
from airflow_kafka_groups.admin.engine.handler_result import K
from airflow_kafka_groups.models import BrokerId

K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLimits:
    """Bound what is asked at once, and how long for.

    After ``give_up_after`` failures a key fails with its last error; ``None`` goes on until the deadline. A group with
    partitions that an open transaction holds back is asked ``unstable_tries`` times (some seconds).
    """

    batch_size: int = 200
    lookup_batch_size: int = 1000
    batches_in_flight: int = 3
    singles_in_flight: int = 256
    first_pause: float = 0.05
    longest_pause: float = 1.0
    give_up_after: int | None = None
    unstable_tries: int = 8


@dataclass(frozen=True, slots=True, eq=False)
class RequestSpec(Generic[K]):
    """Be one request to send: to which broker, for which keys, by which handler."""

    broker_id: BrokerId
    keys: tuple[K, ...]
    handler: AdminHandler[K, Any] = field(repr=False)
    is_lookup: bool


class KeyWeights(Protocol[K_contra]):
    """Weigh keys, so that no request makes a broker write more than it can."""

    def fit(self, keys: Sequence[K_contra]) -> int:
        """Count how many of these keys, from the first on, fit into one request; at least one."""
        ...
