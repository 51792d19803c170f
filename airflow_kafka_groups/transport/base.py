"""The interface of a connection, which the rest of the package uses and a fake in a test implements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.codec import Message

OnAnswer = Callable[[Message, KafkaGroupsError | None], None]
"""Called with the answer, or with ``None`` and an error."""


class SentRequest(Protocol):
    """A request under way."""

    def cancel(self) -> object:
        """Stop waiting for the answer. The broker may act on the request all the same."""
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

    def submit(self, api: Api, version: int, request: Message, timeout: float, on_answer: OnAnswer) -> SentRequest:
        """Send a request, and call ``on_answer`` with its decoded answer, or with the error that ``send`` raises.

        It is called once, in a later turn of the event loop, and never for a request that was cancelled. A connection
        that is lost already raises ``ConnectionFailedError``.

        :param timeout: seconds until the answer has to be there.
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
