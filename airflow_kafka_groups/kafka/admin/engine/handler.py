"""The interface between the engine and one Kafka API: what to send, what each key's answer means, and the limits.

Handlers are sans-IO and stateless, and have all that is true of one API only. A generic "retriable" flag never decides:
libraries disagree about it. An answer sorts its keys:

- *completed*: the value
- *failed*: final, with the reason
- *unmapped*: this broker is not (or no longer) the one to ask; look the key up again
- *retry*: the right broker at the wrong moment; ask it again after a pause
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, MissingAnswerError, RemoteProtocolError
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.answers import KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAY_BE_ANOTHERS = {ErrorCode.unknown_server_error, ErrorCode.invalid_request, ErrorCode.message_too_large}
"""What brokers say of all keys that they work on together, whichever of them is the trouble."""


class KeyStatus(Enum):
    """What an error code means for one key."""

    FAILED = "failed"
    UNMAPPED = "unmapped"
    RETRY = "retry"


Outcome = tuple[K, V | None, KafkaGroupsError | None]
"""The end of one key: the key, and its value or an error."""


@dataclass(slots=True)
class HandlerResult(Generic[K, V]):
    """The keys of one request, each in one place. ``completed`` may make its values when they are taken."""

    completed: Mapping[K, V] = field(default_factory=dict)
    failed: dict[K, KafkaGroupsError] = field(default_factory=dict)
    unmapped: dict[K, KafkaGroupsError] = field(default_factory=dict)
    retry: dict[K, KafkaGroupsError] = field(default_factory=dict)

    def add_error(self, status: KeyStatus, key: K, error: KafkaGroupsError) -> None:
        """Add a key with an error."""
        getattr(self, status.value)[key] = error

    def failed_together(self, keys: Sequence[K]) -> list[K]:
        """Return the keys whose error may be another key's, and of which nothing else was said."""
        others = (self.completed, self.unmapped, self.retry)
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


COORDINATOR_CODES: Mapping[ErrorCode, KeyStatus] = {
    # The group has moved, or its partition has no leader just now: ask who has it.
    ErrorCode.not_coordinator: KeyStatus.UNMAPPED,
    ErrorCode.coordinator_not_available: KeyStatus.UNMAPPED,
    # The right broker, still reading __consumer_offsets: moving on would find the same one.
    ErrorCode.coordinator_load_in_progress: KeyStatus.RETRY,
}
"""What a coordinator may answer about one of its groups. Every other code is final."""


class AdminHandler(ABC, Generic[K, V]):
    """One Kafka API, as the engine sees it. What is not abstract has the default of an API that reads."""

    __slots__ = ()
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = COORDINATOR_CODES
    """The error codes of a key that are not final."""
    changes_groups: bool = False
    """Whether a request changes groups. Then the client's change policy is asked about every key first."""
    resend_after_loss: bool = True
    """Whether a request is sent again when its answer was lost. Never for a deletion."""
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

    def fit(self, keys: Sequence[K]) -> int:
        """Return how many of so many keys, from the first on, a broker can do in one request; at least one."""
        return len(keys)

    def subject(self, key: K) -> str:
        """Return what a key is, for its error."""
        return f"group {key!r}"

    def add_code(
        self, result: HandlerResult[K, V], key: K, code: ErrorCode, broker_id: BrokerId, message: str | None = None
    ) -> None:
        """Add a key with an error code, as ``codes`` sorts it, to a result."""
        error = broker_error(code, self.api, broker_id=broker_id, subject=self.subject(key), message=message)
        result.add_error(self.codes.get(code, KeyStatus.FAILED), key, error)

    def error_of_part(self, code: ErrorCode | None, broker_id: BrokerId, part: str) -> KafkaGroupsError:
        """Return the error of a part of a key; ``None`` where the answer lacks it."""
        if code is None:
            return MissingAnswerError(f"broker {broker_id} left {part} out of its answer to {self.api.name}")
        return broker_error(code, self.api, broker_id=broker_id, subject=part)

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a key fails with this error; ``None`` to go on until the deadline."""
        return None

    def may_be_done(self, error: KafkaGroupsError) -> bool:
        """Return whether a broker may have done what it answers with this error to, and will be asked again."""
        return False

    @abstractmethod
    def build(self, keys: Sequence[K], version: int) -> Message:
        """Build a request for all the keys; raise ``NoBatchedRequestError`` if this version takes one key a request."""

    @abstractmethod
    def parse(self, broker_id: BrokerId, keys: Sequence[K], version: int, response: Any) -> HandlerResult[K, V]:
        """Sort the answer's keys. The engine finds the keys that the broker left out."""

    def parse_series(
        self, broker_id: BrokerId, keys: Sequence[K], version: int, responses: Sequence[Any]
    ) -> HandlerResult[K, V]:
        """Sort the keys of requests of one key each. What an answer says of other keys than its own does not count."""
        parts: dict[str, dict[K, Any]] = {name: {} for name in ("completed", "failed", "unmapped", "retry")}
        for key, response in zip(keys, responses, strict=True):
            result = self.parse(broker_id, (key,), version, response)
            for name, part in parts.items():
                if key in (its := getattr(result, name)):
                    part[key] = its[key]
        return HandlerResult(**parts)


class KeyedHandler(AdminHandler[K, V]):
    """An API that answers with a value or an error for each key."""

    __slots__ = ()

    def parse(
        self, broker_id: BrokerId, keys: Sequence[K], version: int, response: KeyedAnswer[K, V]
    ) -> HandlerResult[K, V]:
        """Sort the answer's keys."""
        result = HandlerResult(response.found)
        for key, code, message in response.failed:
            self.add_code(result, key, code, broker_id, message)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingHandler(AdminHandler[K, V]):
    """The defaults of a handler that changes groups: never sent again when the answer was lost."""

    changes_groups = True
    resend_after_loss = False
    send_by: float = math.inf

    def may_be_done(self, error: KafkaGroupsError) -> bool:
        """Return whether it may be made: a broker says so of a change that was written and not replicated in time."""
        return isinstance(error, BrokerError) and error.code == ErrorCode.coordinator_not_available
