"""The interface between the engine and one Kafka API: what to send, what each key's answer means, and the API's limits.

One handler for each API (``handlers/``), each with one table of error codes. Handlers are sans-IO and stateless.
Everything that is true of one API only belongs to its handler: versions, errors, the size of requests, how often to try
again, whether to send it again when its answer is lost. The engine knows scopes, keys, times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.admin.engine.handler_result import HandlerResult, K, V
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.protocol.protocol_apis import Api

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
