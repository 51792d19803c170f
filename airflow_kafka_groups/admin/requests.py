"""What the driver hands out, and what bounds it: one request to send, the limits, the weights of keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, MutableSequence, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_groups.admin.fates import K
from airflow_kafka_groups.admin.handler import AdminHandler
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

    @property
    def budget(self) -> int:
        """Give what one request may put into one bucket."""
        ...

    def shares(self, keys: Sequence[K_contra]) -> Iterable[tuple[int, int]]:
        """Give the bucket of each of these keys, and what it puts into that."""
        ...


def within_budget(queue: MutableSequence[K], size: int, weights: KeyWeights[K]) -> int:
    """Count how many of the next ``size`` keys fit into one request; at least one."""
    filled: dict[int, int] = {}
    budget = weights.budget
    for position, (bucket, weight) in enumerate(weights.shares(list(islice(queue, size)))):
        filled[bucket] = content = filled.get(bucket, 0) + weight
        if content > budget and position > 0:
            return position
    return size
