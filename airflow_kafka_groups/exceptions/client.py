"""Errors of input, connections, requests and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KafkaGroupsError(Exception):
    """The base class of all errors of this package.

    Errors can be pickled and copied, as results are that hold them: a pool of processes hangs when one cannot.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Not with the arguments of each class, as Python does it: an error keeps the message made of them.
        return _restore, (type(self), self.args, self.__dict__)


class ConfigurationError(KafkaGroupsError, ValueError):
    """Bad input, detected before any change.

    :param field: the name of the field or argument, as typed by the user.
    :param value: the value; pass ``None`` for a secret, so that it is not shown.
    :param remedy: what to do about it, as a sentence.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self._shown = "" if value is None else f" (got {_shorten(value)})"
        self.remedy = remedy
        self.rename(field)

    def rename(self, field: str) -> None:
        """Name another field: the one that the user filled, and from which this one was made."""
        self.field = field
        self.args = (f"{field}{self._shown}: {self.remedy}",)


class UnsupportedByClientError(ConfigurationError):
    """The installed confluent-kafka lacks what the connection needs, such as Kerberos."""


class AirflowUnavailableError(KafkaGroupsError):
    """Airflow, or one of its secrets backends, could not be asked for a connection. It may exist; try again."""


class LocalProtocolError(KafkaGroupsError):
    """A request that cannot be built."""


class UnsupportedVersionError(LocalProtocolError):
    """No version of an API is supported by both the broker and this client."""


class SwitchedOffError(UnsupportedVersionError):
    """The broker has the protocol of these groups switched off; it may have groups of it from before."""


class NoBatchedRequestError(UnsupportedVersionError):
    """The broker's version accepts one key per request, but several were requested."""


class NoBatchedFindCoordinatorsError(NoBatchedRequestError):
    """The broker cannot look up coordinators in batches (FindCoordinator below v4, KIP-699)."""


class NoBatchedOffsetFetchError(NoBatchedRequestError):
    """The broker cannot fetch offsets of many groups at once (OffsetFetch below v8, KIP-709)."""


class ConnectionFailedError(KafkaGroupsError, ConnectionError):
    """A broker could not be reached, or closed the connection.

    :param address: ``host:port`` of the broker.
    :param reason: what happened, in a sentence for the user.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class ClientClosedError(ConnectionFailedError):
    """The client was closed while a call used it, so nothing more is sent."""

    def __init__(self) -> None:
        super().__init__("cluster", "the client is closed; leave its `async with` block after the last call is done")


class AuthenticationFailedError(ConnectionFailedError):
    """The broker refused the credentials or the TLS handshake. Retrying does not help."""


class FinalTriggerError(KafkaGroupsError):
    """A trigger failed for a reason that a retry of its task would meet again, such as a refused password."""


class NoBrokerAvailableError(ConnectionFailedError):
    """No bootstrap server could be used.

    :param address: all bootstrap servers.
    :param reason: what happened with each of them.
    """

    def __init__(self, address: str, reason: str) -> None:
        KafkaGroupsError.__init__(self, reason)
        self.address = address
        self.reason = reason


class RequestTimeoutError(KafkaGroupsError, TimeoutError):
    """A request had no response within its timeout."""


class DeadlineExceededError(KafkaGroupsError, TimeoutError):
    """The deadline of a call passed before a key was done."""


class NotSentError(DeadlineExceededError):
    """A change did not leave within the time it was given, so nothing happened."""


class RemoteProtocolError(KafkaGroupsError):
    """A response that cannot be interpreted."""


class MissingAnswerError(RemoteProtocolError):
    """A response that lacks a requested key."""


class BrokerError(KafkaGroupsError):
    """An error code returned by a broker.

    :param code: Kafka's error code, e.g. 68.
    :param name: Kafka's name of the code, e.g. ``NON_EMPTY_GROUP``.
    :param description: what the code means, or the broker's own message if it sent one.
    :param api: the name of the API.
    :param broker_id: node id of the broker, ``None`` if unknown.
    :param subject: the group, partition or key that the error is about.
    """

    def __init__(
        self, code: int, name: str, description: str, *, api: str, broker_id: int | None = None, subject: str = ""
    ) -> None:
        where = "" if broker_id is None else f" from broker {broker_id}"
        about = f" for {subject}" if subject else ""
        super().__init__(f"{api}{about}: {name} ({code}){where}: {description}")
        self.code = code
        self.name = name
        self.description = description
        self.api = api
        self.broker_id = broker_id
        self.subject = subject


class OutcomeUnknownError(KafkaGroupsError):
    """A change was sent, but its response was lost: it may have happened. Check before deciding anything."""


def _restore(kind: type[KafkaGroupsError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> KafkaGroupsError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of more than 4,300 digits
        text = "an integer of thousands of digits"
    return text if len(text) <= 120 else f"{text[:117]}..."
