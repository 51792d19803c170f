"""What the rest of the package needs of a connection; what a fake in a test implements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.codec import Message


class BrokerConnection(Protocol):
    """Be one open, authenticated connection to one broker, on which many requests may be in flight."""

    @property
    def versions(self) -> ApiVersions:
        """Give what the broker announced when the connection was opened."""
        ...

    @property
    def usable(self) -> bool:
        """Say whether a request may still be sent."""
        ...

    async def send(self, api: Api, version: int, request: Message, timeout: float) -> Message:
        """Send a request and give its decoded answer.

        :param timeout: seconds until the answer has to be there.

        Raises ``RequestTimeoutError``, ``ConnectionFailedError`` or ``RemoteProtocolError``.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail with ``ConnectionFailedError``."""
        ...


Connector = Callable[[str, int], Awaitable[BrokerConnection]]
"""Opens a connection to a host and port."""
