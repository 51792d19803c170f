"""What becomes of the keys of a request: four statuses that add up, and one that splits a request.

- *completed*: here is the value
- *failed*: final, with the reason
- *unmapped*: this broker is not (or no longer) the one to ask; look the key up again
- *retry*: the right broker, at the wrong moment; ask it again after a pause

A fifth is for a request, not a key: *split* are keys of a request that was more than the broker could do at once.
They are asked again in halves; a single key that is too much fails.

``coordinator_status`` sorts the error codes that mean the same for every API that asks a coordinator. A generic
"retriable" flag never decides: libraries disagree about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.protocol.error_codes import ErrorCode

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeyStatus(Enum):
    """Be what becomes of a key."""

    COMPLETED = "completed"
    FAILED = "failed"
    UNMAPPED = "unmapped"
    RETRY = "retry"


Outcome = tuple[K, V | None, KafkaGroupsError | None]
"""The end of one key: the key, and its value or an error."""


@dataclass(slots=True)
class HandlerResult(Generic[K, V]):
    """Sort the keys of one request by what becomes of them."""

    completed: dict[K, V] = field(default_factory=dict)
    failed: dict[K, KafkaGroupsError] = field(default_factory=dict)
    unmapped: dict[K, KafkaGroupsError] = field(default_factory=dict)
    retry: dict[K, KafkaGroupsError] = field(default_factory=dict)
    split: dict[K, KafkaGroupsError] = field(default_factory=dict)

    def all_completed(self, keys: Set[K]) -> bool:
        """Say whether exactly these keys are completed, and nothing else is said of any."""
        others = self.failed or self.unmapped or self.retry or self.split
        return not others and self.completed.keys() == keys

    def add_error(self, status: KeyStatus, key: K, error: KafkaGroupsError) -> None:
        """Put a key with an error where its status says; a status without an error has no place here."""
        {KeyStatus.FAILED: self.failed, KeyStatus.UNMAPPED: self.unmapped, KeyStatus.RETRY: self.retry}[status][key] = (
            error
        )


def coordinator_status(code: ErrorCode) -> KeyStatus:
    """Sort an error code that a coordinator may answer with about one of its groups."""
    match code:
        case ErrorCode.none:
            return KeyStatus.COMPLETED
        case ErrorCode.not_coordinator | ErrorCode.coordinator_not_available:
            # The group has moved, or its partition has no leader just now: ask who has it.
            return KeyStatus.UNMAPPED
        case ErrorCode.coordinator_load_in_progress:
            # The right broker, still reading __consumer_offsets: moving on would find the same one.
            return KeyStatus.RETRY
        case _:
            return KeyStatus.FAILED
