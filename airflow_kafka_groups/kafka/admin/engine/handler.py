"""The interface between the engine and one Kafka API: what to send, what each key's answer means, and the limits.

One handler for each API (``handlers/``), each with one table of error codes. Handlers are sans-IO and stateless.
Everything that is true of one API only belongs to its handler: versions, errors, the size of requests, how often to try
again, whether to send it again when its answer is lost. The engine knows scopes, keys, times.

An answer sorts its keys:

- *completed*: the value
- *failed*: final, with the reason
- *unmapped*: this broker is not (or no longer) the one to ask; look the key up again
- *retry*: the right broker at the wrong moment; ask it again after a pause

``coordinator_status`` sorts the error codes that mean the same for every API that asks a coordinator. A generic
"retriable" flag never decides: libraries disagree about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, MissingAnswerError, RemoteProtocolError
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

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
        of_status = {KeyStatus.FAILED: self.failed, KeyStatus.UNMAPPED: self.unmapped, KeyStatus.RETRY: self.retry}
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


K_contra = TypeVar("K_contra", contravariant=True)


class KeySizes(Protocol[K_contra]):
    """The sizes of keys, where a broker can do only so much for one request."""

    def fit(self, keys: Sequence[K_contra]) -> int:
        """Return how many of these keys, from the first on, fit into one request; at least one."""
        ...


class AdminHandler(ABC, Generic[K, V]):
    """One Kafka API, as the engine sees it. What is not abstract has the default of an API that reads."""

    __slots__ = ()
    changes_groups: bool = False
    """Whether a request changes groups. Then the client's change policy is asked about every key first."""
    resend_after_loss: bool = True
    """Whether a request is sent again when its answer was lost. Never for a deletion."""
    sizes: KeySizes[Any] | None = None
    """What limits a request besides the number of keys; ``None`` for nothing."""
    send_by: float = math.inf
    """The time, on ``cluster.clock``, after which no request leaves: the keys that are left fail unsent."""
    connections: int = 1
    """How many connections to each broker its requests are spread over."""
    turns: Mapping[K, int] = MappingProxyType({})
    """The number of the connection of a key. Default: the broker's own one."""

    @property
    @abstractmethod
    def api(self) -> Api:
        """The API."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """The most keys of one request."""

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a key fails with this error; ``None`` to go on until the deadline."""
        return None

    def may_be_done(self, error: KafkaGroupsError) -> bool:
        """Return whether a broker may have done what it answers with this error to, and will be asked again."""
        return False

    @abstractmethod
    def build(self, keys: Sequence[K], version: int) -> Message:
        """Build one request for all the keys.

        Raises ``NoBatchedRequestError`` when this version takes one key a request and there are more: the engine then
        sends this broker one key a request.
        """

    @abstractmethod
    def parse(self, broker_id: BrokerId, keys: Sequence[K], version: int, response: Any) -> HandlerResult[K, V]:
        """Sort the answer's keys. The engine finds the keys that the broker left out."""

    def parse_series(
        self, broker_id: BrokerId, keys: Sequence[K], version: int, responses: Sequence[Any]
    ) -> HandlerResult[K, V]:
        """Sort the keys of requests of one key each. What an answer says of other keys than its own does not count."""
        result: HandlerResult[K, V] = HandlerResult()
        for key, response in zip(keys, responses, strict=True):
            result.add(key, self.parse(broker_id, (key,), version, response))
        return result


class ChangingHandler(AdminHandler[K, V]):
    """The defaults of a handler that changes groups: never sent again when the answer was lost."""

    __slots__ = ()
    changes_groups = True
    resend_after_loss = False

    def may_be_done(self, error: KafkaGroupsError) -> bool:
        """Return whether it may be made: a broker says so of a change that was written and not replicated in time."""
        return isinstance(error, BrokerError) and error.code == ErrorCode.coordinator_not_available
