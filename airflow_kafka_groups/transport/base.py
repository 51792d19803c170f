"""The interface of a connection, which the rest of the package uses and a fake in a test implements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.codec import Message


class BrokerConnection(Protocol):
    """An open, authenticated connection to one broker, on which many requests may be in flight."""

    @property
    def versions(self) -> ApiVersions:
        """What the broker announced when the connection was opened."""
        ...

    @property
    def usable(self) -> bool:
        """Whether a request may still be sent."""
        ...

    async def send(self, api: Api, version: int, request: Message, timeout: float) -> Any:
        """Send a request and return the decoded response: the answer type of its API (``protocol.answers``).

        :param timeout: seconds for the response to arrive.

        Raises ``RequestTimeoutError``, ``ConnectionFailedError`` or ``RemoteProtocolError``.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail with ``ConnectionFailedError``."""
        ...


Connector = Callable[[str, int], Awaitable[BrokerConnection]]
"""Opens a connection to a host and port."""
