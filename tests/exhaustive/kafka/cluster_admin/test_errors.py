"""Every error of librdkafka becomes one of this package's, at one edge."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

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
from airflow_kafka_groups.kafka.cluster_admin.session import configuration_error, refuses_login, translated

CODES = sorted({value for name, value in vars(KafkaError).items() if name.isupper() and isinstance(value, int)})
LOCAL = {
    KafkaError._AUTHENTICATION: AuthenticationFailedError,
    KafkaError._SSL: AuthenticationFailedError,
    KafkaError._TIMED_OUT: RequestTimeoutError,
    KafkaError._TIMED_OUT_QUEUE: RequestTimeoutError,
    KafkaError._UNSUPPORTED_FEATURE: UnsupportedVersionError,
    KafkaError._BAD_MSG: RemoteProtocolError,
    KafkaError._UNDERFLOW: RemoteProtocolError,
    KafkaError._INVALID_ARG: ConfigurationError,
}


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_kind(code: int) -> None:
    error = translated(KafkaError(code), api="Metadata", servers="b1:9092", broker_id=3, subject="topic 't'")
    expected: type[KafkaGroupsError] = BrokerError if code >= -1 else LOCAL.get(code, ConnectionFailedError)
    assert type(error) is expected
    if isinstance(error, BrokerError):
        assert (error.code, error.api, error.broker_id, error.subject) == (code, "Metadata", 3, "topic 't'")


def test_there_are_many_codes() -> None:
    assert len(CODES) > 120
    assert set(LOCAL) <= set(CODES)


def test_a_broker_error_has_kafkas_name_and_an_unknown_one_its_code() -> None:
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in str(translated(KafkaError(3), api="A", servers="s"))
    unknown = translated(KafkaError(30_000), api="A", servers="s")
    assert isinstance(unknown, BrokerError)
    assert unknown.code == 30_000


def test_a_timeout_names_the_servers_the_broker_and_the_last_connection_error() -> None:
    timeout = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for broker: Local: Timed out")
    said = str(translated(timeout, api="DescribeConfigs", servers="b1:9092", broker_id=2, context="b2 refused"))
    assert said == (
        "broker 2 of b1:9092: DescribeConfigs: Failed while waiting for broker: Local: Timed out (b2 refused)"
    )


@pytest.mark.safety
@pytest.mark.parametrize("code", CODES)
def test_only_a_refused_login_is_final(code: int) -> None:
    assert refuses_login(KafkaError(code)) is (code in (KafkaError._AUTHENTICATION, KafkaError._SSL))


def test_refused_settings_are_a_configuration_error() -> None:
    error = configuration_error(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.pem failed"))
    assert type(error) is ConfigurationError
    assert "ssl.ca.pem failed" in str(error)
    kerberos = KafkaError(KafkaError._INVALID_ARG, "No provider for SASL mechanism GSSAPI: recompile librdkafka")
    assert isinstance(configuration_error(kerberos), UnsupportedByClientError)
