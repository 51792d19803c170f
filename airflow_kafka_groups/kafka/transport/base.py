"""The interface of a connection, which the rest of the package uses and a fake in a test implements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.protocol.api_versions import Api, ApiVersions
from airflow_kafka_groups.kafka.protocol.codec import Message

OnAnswers = Callable[[Sequence[Message], Mapping[int, KafkaGroupsError]], None]
"""Called with the next answers in the order of their requests, and the errors of those that have none, by place."""


class SentRequests(Protocol):
    """Requests under way that were sent together."""

    def cancel(self) -> object:
        """Stop waiting for the answers. The broker may act on the requests all the same."""
        ...

    def flush(self) -> object:
        """Hand over the answers that have come so far. The others follow."""
        ...


class BrokerConnection(Protocol):
    """An open, authenticated connection to one broker, on which many requests may be in flight."""

    @property
    def versions(self) -> ApiVersions:
        """What the broker announced when the connection was opened."""
        ...

    @property
    def usable(self) -> bool:
        """Whether a request may still be sent. What is under way may be answered all the same."""
        ...

    async def send(self, api: Api, version: int, request: Message, timeout: float) -> Any:
        """Send a request and return the decoded response: the answer type of its API (``protocol.answers``).

        :param timeout: seconds for the response to arrive.

        Raises ``RequestTimeoutError``, ``ConnectionFailedError`` or ``RemoteProtocolError``.
        """
        ...

    def submit(
        self, api: Api, version: int, requests: Sequence[Message], timeout: float, on_answers: OnAnswers
    ) -> SentRequests:
        """Send requests, and call ``on_answers`` with their decoded answers, or with the errors that ``send`` raises.

        It is called in a later turn of the event loop, when all have come or failed, and before with what came since
        for each ``flush`` and each answer that asks for silence; never for requests that were cancelled. A connection
        that is lost already raises ``ConnectionFailedError``, and sends none.

        :param timeout: seconds until the answers have to be there.
        """
        ...

    async def drain(self) -> None:
        """Wait until no request is under way."""
        ...

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail with ``ConnectionFailedError``."""
        ...


Connector = Callable[[str, int], Awaitable[BrokerConnection]]
"""Opens a connection to a host and port."""
