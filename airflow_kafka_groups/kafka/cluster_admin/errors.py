"""librdkafka's errors as this package's: the one edge where they are translated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedByClientError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

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
