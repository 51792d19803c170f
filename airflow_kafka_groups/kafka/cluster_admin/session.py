"""One confluent-kafka client, for one call, in a worker thread; librdkafka's errors become this package's here.

librdkafka has threads of its own and reports logs, errors and token requests only to who polls it, so a call runs in a
thread that polls until its futures are done. Four things differ from a bare client:

1. A refused login ends the call. librdkafka would try the same password three times a second until the timeout.
2. The token is fetched first, so that an error of its source is raised as it is, and no callback can fail.
3. A cancelled call stops polling; nothing waits for the brokers any more.
4. CA certificates that Python finds by ``SSL_CERT_FILE`` are used here too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedByClientError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient


_LAST_LOCAL_ERROR = -100  # librdkafka's own errors are -200 to -100; the broker's begin at -1


def configuration_error(error: KafkaError) -> ConfigurationError:
    """Return the error of settings that librdkafka refuses; its messages name the setting and hold no secret."""
    text = error.str()
    if "No provider for SASL mechanism" in text:
        return UnsupportedByClientError(
            "sasl.mechanism",
            None,
            "the installed confluent-kafka was built without Kerberos (GSSAPI): install libsasl2's headers and run "
            "'pip install --no-binary confluent-kafka confluent-kafka'",
        )
    return ConfigurationError("connection", None, f"librdkafka refuses it: {text}")


def refuses_login(error: KafkaError) -> bool:
    """Return whether the login or the TLS handshake failed: trying again could lock the user out."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)


def translated(
    error: KafkaError, *, api: str, servers: str, broker_id: int | None = None, subject: str = "", context: str = ""
) -> KafkaGroupsError:
    """Return the package's error for one of librdkafka's.

    :param api: the API that was called, such as ``DescribeConfigs``.
    :param servers: the bootstrap servers, for errors of a connection.
    :param broker_id: the broker that was asked, if it is known.
    :param subject: the topic or resource.
    :param context: what else is known of the cause, such as the last connection error.
    """
    from confluent_kafka import KafkaError

    code, text = error.code(), error.str()
    if code > _LAST_LOCAL_ERROR:
        return BrokerError(
            code, _name(code, error), text.removeprefix("Broker: "), api=api, broker_id=broker_id, subject=subject
        )
    where = servers if broker_id is None else f"broker {broker_id} of {servers}"
    reason = f"{api}: {text}" + (f" ({context})" if context else "")
    if refuses_login(error):
        return AuthenticationFailedError(where, reason)
    if code in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
        return RequestTimeoutError(f"{where}: {reason}")
    if code == KafkaError._UNSUPPORTED_FEATURE:
        return UnsupportedVersionError(f"{where}: {reason}")
    if code in (KafkaError._BAD_MSG, KafkaError._UNDERFLOW):
        return RemoteProtocolError(f"{where}: {reason}")
    if code == KafkaError._INVALID_ARG:
        return ConfigurationError(subject or api, None, text)
    return ConnectionFailedError(where, reason)


def _name(code: int, error: KafkaError) -> str:
    return ErrorCode(code).name.upper() if code in ErrorCode.__members__.values() else str(error.name())


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_POLL_SECONDS = 0.05
_logger = logging.getLogger(__name__)


class Session:
    """A client of one call and what it has reported so far.

    :param cancelled: set when nobody waits for the call any more.

    Raises ``ConfigurationError`` for settings that librdkafka refuses, and the error of the token source.
    """

    def __init__(self, config: ClientConfig, cancelled: threading.Event) -> None:
        self._deadline = time.monotonic() + config.api_timeout
        self._cancelled = cancelled
        self._request_timeout = config.request_timeout
        self._reported: KafkaError | None = None
        settings = client_settings(config)
        self.servers = str(settings["bootstrap.servers"])
        self.client = self._connect(settings)

    @property
    def request_timeout(self) -> float:
        """The seconds that the next request may take."""
        return max(min(self._request_timeout, self._deadline - time.monotonic()), 0.001)

    def results(
        self,
        api: str,
        futures: Mapping[K, Future[Any]],
        *,
        broker_id: Callable[[K], int | None] = lambda _: None,
        subject: Callable[[K], str] = lambda _: "",
    ) -> dict[K, Any | KafkaGroupsError]:
        """Wait for futures and return what each holds: its result, or its error translated.

        :param broker_id: returns the broker that a key was asked of, for its error. Default: it is not known.
        :param subject: returns what a key is about, for its error. Default: nothing.

        Raises ``AuthenticationFailedError`` when the login fails, and ``DeadlineExceededError`` when the call takes
        longer than ``api_timeout``.
        """
        from confluent_kafka import KafkaException

        self._wait(api, futures.values())
        found: dict[K, Any | KafkaGroupsError] = {}
        for key, future in futures.items():
            try:
                found[key] = future.result(0)
            except KafkaException as exc:
                where = {"servers": self.servers, "subject": subject(key), "context": self._context()}
                found[key] = translated(exc.args[0], api=api, broker_id=broker_id(key), **where)
                found[key].__cause__ = exc
        return found

    def _connect(self, settings: dict[str, Any]) -> AdminClient:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings["error_cb"] = self._remember
        try:
            return AdminClient(settings, logger=_logger)
        except KafkaException as exc:
            raise configuration_error(exc.args[0]) from exc

    def _remember(self, error: KafkaError) -> None:
        if self._reported is None or not refuses_login(self._reported):
            self._reported = error

    def _wait(self, api: str, futures: Any) -> None:
        while not all(future.done() for future in futures):
            self.client.poll(_POLL_SECONDS)
            if self._reported is not None and refuses_login(self._reported):
                raise translated(self._reported, api=api, servers=self.servers)
            if self._cancelled.is_set() or time.monotonic() > self._deadline:
                raise DeadlineExceededError(f"{api}: no answer from {self.servers} in time{self._context()}")

    def _context(self) -> str:
        return "" if self._reported is None else f"last connection error: {self._reported.str()}"


def client_settings(config: ClientConfig) -> dict[str, Any]:
    """Return librdkafka's settings of a client of one call. Raises the error of the token source."""
    settings = to_librdkafka(config)
    if (source := settings.get("oauth_cb")) is not None:
        token = source(settings.get("sasl.oauthbearer.config", ""))
        settings["oauth_cb"] = lambda _config: token
    settings["enable.metrics.push"] = "false"  # a client of one call has none, and librdkafka would log its ids
    _trust_what_python_trusts(settings)
    return settings


def _trust_what_python_trusts(settings: dict[str, Any]) -> None:
    """Set the CA certificates of ``SSL_CERT_FILE``, which librdkafka does not look at where the system has others.

    Without this, a private CA that is configured so would be trusted by the core and not here.
    """
    location = os.environ.get("SSL_CERT_FILE")
    uses_tls = settings["security.protocol"].endswith("SSL")
    if location and uses_tls and not any(name.startswith("ssl.ca.") for name in settings):
        settings["ssl.ca.location"] = location


async def in_session(config: ClientConfig, function: Callable[[Session], T]) -> T:
    """Run a function with a session in a worker thread, off the event loop."""
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(lambda: function(Session(config, cancelled)))
    finally:
        cancelled.set()
