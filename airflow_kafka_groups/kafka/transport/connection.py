"""A connection to one broker, opened by aiokafka: it does TLS, SASL and ApiVersions, and then hands the socket over."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from airflow_kafka_groups.exceptions import (
    ConnectionFailedError,
    KafkaGroupsError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.protocol.api_versions import CHANGES, Api, ApiVersions
from airflow_kafka_groups.kafka.protocol.apis import decode_response
from airflow_kafka_groups.kafka.protocol.codec import Message, encode_body, header_around
from airflow_kafka_groups.kafka.transport.aiokafka_connection import TlsContext, open_socket, say
from airflow_kafka_groups.kafka.transport.pipeline import Exchange, Pipeline
from airflow_kafka_groups.kafka.transport.security import SecurityConfig

_UNACKNOWLEDGED_SECONDS = 20
_IDLE_SECONDS = 60


OnAnswers = Callable[[Sequence[Message], Mapping[int, KafkaGroupsError]], None]
"""Called with the next answers in the order of their requests, and the errors of those that have none, by place."""


class BrokerConnection:
    """An authenticated connection to one broker, on which many requests may be in flight: see ``open_connection``.

    :param usable_until: the time, on the event loop's clock, after which nothing new is sent. Default: any time.
    """

    def __init__(
        self, pipeline: Pipeline, versions: ApiVersions, client_id: str, address: str, usable_until: float | None = None
    ) -> None:
        self._pipeline = pipeline
        self._usable_until = usable_until
        self.versions = versions
        self._client_id = client_id
        self._address = address
        self._next_id = 0

    @property
    def usable(self) -> bool:
        """Whether the connection is still open, and its login good for some more time."""
        until = self._usable_until  # nearly always None
        return self._pipeline.open and (until is None or asyncio.get_running_loop().time() < until)

    async def send(self, api: Api, version: int, request: Message, timeout: float) -> Any:
        """Send a request and return the decoded response: the answer type of its API (``protocol.answers``).

        :param timeout: seconds for the response to arrive.

        Raises ``RequestTimeoutError``, ``ConnectionFailedError`` or ``RemoteProtocolError``.
        """
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(answers: Sequence[Message], errors: Mapping[int, KafkaGroupsError]) -> None:
            if result.done():  # the caller was cancelled, and has not run since
                return
            if errors:
                result.set_exception(errors[0])
            else:
                result.set_result(answers[0])

        sent = self.submit(api, version, (request,), timeout, settle)
        try:
            return await result
        finally:
            sent.cancel()  # who was cancelled waits no more

    def submit(
        self, api: Api, version: int, requests: Sequence[Message], timeout: float, on_answers: OnAnswers
    ) -> SentRequests:
        """Send requests, and call ``on_answers`` with their decoded answers, or with the errors that ``send`` raises.

        It is called in a later turn of the event loop, when all have come or failed, and before with what came since
        for each ``flush`` and each answer that asks for silence; never for requests that were cancelled. A connection
        that is lost already raises ``ConnectionFailedError``, and sends none.
        """
        answers = SentRequests(api, version, on_answers, partial(self._failure, api, timeout))
        first, frames = self._next_id, self._encode(api, version, requests)
        try:
            self._pipeline.submit(first, frames, timeout, answers, changes=api in CHANGES)
        except OSError as error:
            raise self._failure(api, timeout, error) from error
        self._next_id += len(requests)
        return answers

    def _encode(self, api: Api, version: int, requests: Sequence[Message]) -> list[bytes]:
        """Return complete requests, with headers whose correlation ids are the next ones."""
        before, after = header_around(api, version, self._client_id)
        first = self._next_id
        return [
            b"".join((before, (first + place).to_bytes(4, "big"), after, encode_body(request)))
            for place, request in enumerate(requests)
        ]

    def _failure(self, api: Api, timeout: float, error: Exception) -> KafkaGroupsError:
        if isinstance(error, TimeoutError):
            failure: KafkaGroupsError = RequestTimeoutError(
                f"{self._address}: no answer to {api.name} within {timeout:g} s"
            )
        elif isinstance(error, RemoteProtocolError):
            failure = RemoteProtocolError(f"{self._address}: answers out of order: {error}")
        else:
            cause = error.__cause__ or error
            failure = ConnectionFailedError(self._address, f"connection lost during {api.name}: {say(cause)}")
        failure.__cause__ = error
        return failure

    async def drain(self) -> None:
        """Wait until no request is under way."""
        await self._pipeline.drain()

    async def aclose(self) -> None:
        """Close the socket; requests in flight fail with ``ConnectionFailedError``."""
        await self._pipeline.aclose()


Connector = Callable[[str, int], Coroutine[Any, Any, BrokerConnection]]
"""Opens a connection to a host and port."""


class SentRequests(Exchange):
    """Requests under way that were sent together; their answers are decoded as they come."""

    __slots__ = ("_answers", "_api", "_errors", "_failure", "_on_answers", "_version")

    def __init__(self, api: Api, version: int, on_answers: OnAnswers, failure: Callable[..., KafkaGroupsError]) -> None:
        self._api, self._version = api, version
        self._on_answers, self._failure = on_answers, failure
        self._answers: list[Message] = []
        self._errors: dict[int, KafkaGroupsError] = {}

    def cancel(self) -> None:
        """Stop waiting for the answers. The broker may act on the requests all the same."""
        super().cancel()
        self._answers.clear()

    def flush(self) -> None:
        """Hand over the answers that have come so far. The others follow."""
        answers, errors = self._answers, self._errors
        if answers:
            self._answers, self._errors = [], {}
            self._on_answers(answers, errors)

    def take(self, frame: bytes) -> None:
        """Decode the next answer. The wish of a broker for silence does not wait for the other answers."""
        try:
            answer = decode_response(self._api, self._version, frame)
        except RemoteProtocolError as malformed:
            answer = None
            self._errors[len(self._answers)] = malformed
        self._answers.append(answer)
        if getattr(answer, "throttle_time", None):
            self.flush()

    def end(self, errors: Sequence[Exception]) -> None:
        """Hand over the last answers, and an error for each that will not come."""
        failures = {error: self._failure(error) for error in dict.fromkeys(errors)}
        for error in errors:
            self._errors[len(self._answers)] = failures[error]
            self._answers.append(None)
        self.flush()


async def open_connection(
    host: str, port: int, *, security: SecurityConfig, client_id: str, timeout: float, tls: TlsContext | None = None
) -> BrokerConnection:
    """Open, authenticate and negotiate a connection.

    :param timeout: seconds for all of it.
    :param tls: the shared context of many connections. Default: one is built for this connection.

    Raises ``AuthenticationFailedError`` when retrying cannot help, else ``ConnectionFailedError``.
    """
    opened = await open_socket(
        host, port, security=security, client_id=client_id, timeout=timeout, tls=tls or TlsContext(security)
    )
    versions, writer = opened.detach()
    _notice_a_dead_path(writer.get_extra_info("socket"))
    return BrokerConnection(Pipeline(writer), versions, client_id, f"{host}:{port}", opened.usable_until)


def _notice_a_dead_path(sock: socket.socket) -> None:
    """Let the system end the connection when the other side acknowledges nothing that was sent for some time.

    A firewall or load balancer that has forgotten the connection drops its packets without a word. The system would go
    on sending them for a quarter of an hour, and every call that needs the broker would fail meanwhile.
    """
    with suppress(OSError):  # a sandbox may lack one
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in ("TCP_USER_TIMEOUT", 1000 * _UNACKNOWLEDGED_SECONDS), ("TCP_KEEPIDLE", _IDLE_SECONDS):
            if hasattr(socket, name):  # Linux
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
