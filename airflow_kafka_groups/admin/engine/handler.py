"""The interface between the engine and one Kafka API: what to send, what each key's answer means, and the API's limits.

One handler for each API (``handlers/``), each with one table of error codes. Handlers are sans-IO and stateless.
Everything that is true of one API only belongs to its handler: versions, errors, the size of requests, how often to try
again, how to split a request, whether to send it again when its answer is lost. The engine knows scopes, keys, times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from airflow_kafka_groups.admin.engine.handler_result import HandlerResult, K, V
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.models import BrokerId
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.codec import Message

K_contra = TypeVar("K_contra", contravariant=True)


class KeySizes(Protocol[K_contra]):
    """The sizes of keys, where a broker can do only so much for one request."""

    def fit(self, keys: Sequence[K_contra]) -> int:
        """Return how many of these keys, from the first on, fit into one request; at least one."""
        ...


class AdminHandler(Protocol[K, V]):
    """One Kafka API, as the engine sees it."""

    @property
    def api(self) -> Api:
        """The API."""
        ...

    @property
    def changes_groups(self) -> bool:
        """Whether a request changes groups. Then the client's change policy is asked about every key first."""
        ...

    @property
    def resend_after_loss(self) -> bool:
        """Whether a request is sent again when its answer was lost. Never for a deletion."""
        ...

    @property
    def batch_size(self) -> int:
        """The most keys of one request."""
        ...

    @property
    def sizes(self) -> KeySizes[K] | None:
        """What limits a request besides the number of keys; ``None`` for nothing."""
        ...

    @property
    def send_by(self) -> float:
        """The time, on ``cluster.clock``, after which no request leaves: the keys that are left fail unsent."""
        ...

    @property
    def connections(self) -> int:
        """How many connections to each broker its requests are spread over; those of one key go over the same one."""
        ...

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a key fails with this error; ``None`` to go on until the deadline."""
        ...

    def build(self, keys: Sequence[K], version: int) -> Message:
        """Build one request for all the keys.

        Raises ``NoBatchedRequestError`` when this version takes one key a request and there are more: the engine then
        sends this broker one key a request.
        """
        ...

    def parse(self, broker_id: BrokerId, keys: Sequence[K], version: int, response: Message) -> HandlerResult[K, V]:
        """Sort the answer's keys. The engine finds the keys that the broker left out."""
        ...


class ReadingHandler:
    """The defaults of a handler that reads: send again after a loss, any keys together, try until the deadline."""

    __slots__ = ()
    changes_groups: ClassVar[bool] = False
    resend_after_loss: ClassVar[bool] = True
    sizes: KeySizes[Any] | None = None
    send_by: float = math.inf
    connections: int = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a key fails: never before the deadline."""
        return None


class ChangingHandler(ReadingHandler):
    """The defaults of a handler that changes groups: never sent again when the answer was lost."""

    __slots__ = ()
    changes_groups: ClassVar[bool] = True
    resend_after_loss: ClassVar[bool] = False
