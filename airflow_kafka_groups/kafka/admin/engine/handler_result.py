"""The results of one request, key by key.

- *completed*: the value
- *failed*: final, with the reason
- *unmapped*: this broker is not (or no longer) the one to ask; look the key up again
- *retry*: the right broker at the wrong moment; ask it again after a pause

``coordinator_status`` sorts the error codes that mean the same for every API that asks a coordinator. A generic
"retriable" flag never decides: libraries disagree about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, MissingAnswerError, RemoteProtocolError
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.protocol.protocol_apis import Api

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAY_BE_ANOTHERS = {ErrorCode.unknown_server_error, ErrorCode.invalid_request, ErrorCode.message_too_large}
"""What brokers say of all keys that they work on together, whichever of them is the trouble."""


class KeyStatus(Enum):
    """What an error code means for one key."""

    COMPLETED = "completed"
    FAILED = "failed"
    UNMAPPED = "unmapped"
    RETRY = "retry"


Outcome = tuple[K, V | None, KafkaGroupsError | None]
"""The end of one key: the key, and its value or an error."""


@dataclass(slots=True)
class HandlerResult(Generic[K, V]):
    """The keys of one request, each in one place.

    :param packed: in place of ``completed`` where nothing else is there: values that are made when they are taken.
    """

    completed: dict[K, V] = field(default_factory=dict)
    failed: dict[K, KafkaGroupsError] = field(default_factory=dict)
    unmapped: dict[K, KafkaGroupsError] = field(default_factory=dict)
    retry: dict[K, KafkaGroupsError] = field(default_factory=dict)
    packed: Mapping[K, V] = field(default_factory=dict)

    def add_error(self, status: KeyStatus, key: K, error: KafkaGroupsError) -> None:
        """Add a key with an error. ``COMPLETED`` has no error and raises ``KeyError``."""
        of_status = {
            KeyStatus.FAILED: self.failed,
            KeyStatus.UNMAPPED: self.unmapped,
            KeyStatus.RETRY: self.retry,
        }
        of_status[status][key] = error

    def add(self, key: K, result: HandlerResult[K, V]) -> None:
        """Add what a result says of this key, and nothing that it says of others."""
        for mine, its in (
            (self.completed, result.packed or result.completed),
            (self.failed, result.failed),
            (self.unmapped, result.unmapped),
            (self.retry, result.retry),
        ):
            if key in its:
                mine[key] = its[key]  # type: ignore[assignment]

    def failed_together(self, keys: Sequence[K]) -> list[K]:
        """Return the keys whose error may be another key's, and of which nothing else was said."""
        others = (self.completed, self.packed, self.unmapped, self.retry)
        return [
            key
            for key in keys
            if isinstance(error := self.failed.get(key), BrokerError)
            and error.code in _MAY_BE_ANOTHERS
            and not any(key in other for other in others)
        ]

    def fail_unmapped(self) -> None:
        """Fail the keys that belong to another broker, where no other one may be asked."""
        self.failed |= self.unmapped
        self.unmapped = {}

    def fail_unclear(self, keys: Iterable[K], broker_id: BrokerId, api: Api) -> None:
        """Fail the keys that the answer lacks, and those that it completes and wants to be asked again."""
        again = {*self.unmapped, *self.retry}
        answered = again.union(self.completed, self.failed)
        broker, answer = f"broker {broker_id}", f"its answer to {api.name}"
        for key in keys:
            if key not in answered:
                self.failed[key] = MissingAnswerError(f"{broker} left {key!r} out of {answer}")
            elif key in again and key in self.completed:
                self.failed[key] = RemoteProtocolError(f"{broker} said two things of {key!r} in {answer}")

    def fail_repeated(self, keys: Iterable[K], broker_id: BrokerId, api: Api) -> None:
        """Fail the keys that come more than once, so that nobody takes one of the answers for the answer."""
        for key, times in Counter(keys).items():
            if times > 1:
                error = f"broker {broker_id} said {times} things of {key!r} in its answer to {api.name}"
                self.failed[key] = RemoteProtocolError(error)


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
