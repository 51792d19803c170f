"""Reading records through confluent-kafka: what it is told, and its errors as this package's."""

import logging
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka import ClientConfig, TopicPartition
from airflow_kafka_groups.kafka.records import Span, client_settings, configuration_error, read_spans, translated

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SECRET = "s3cr3t-t0ken"


def read(**settings: object) -> None:
    config = ClientConfig.from_librdkafka({**NOWHERE, **settings})
    read_spans(config, [Span(where=TopicPartition("t", 0), start=0)], bool, threading.Event())


@pytest.mark.safety
def test_the_error_of_a_token_source_is_raised_as_it_is_and_at_once() -> None:
    def refuse(_config: str) -> tuple[str, float]:
        raise ConnectionFailedError("the token endpoint", "is down")

    began = time.monotonic()
    with pytest.raises(ConnectionFailedError, match="the token endpoint: is down"):
        read(**{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": refuse})
    assert time.monotonic() - began < 5, "librdkafka would wait ten seconds for a token"


@pytest.mark.safety
def test_no_secret_is_in_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    with pytest.raises(ConfigurationError) as refused:
        read(**{"security.protocol": "SSL", "ssl.key.pem": key, "ssl.key.password": SECRET})
    assert SECRET not in str(refused.value) + repr(refused.value.__cause__) + caplog.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"security.protocol": "SSL"}, "ca.pem"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/mine.pem"}, "/mine.pem"),
        ({"security.protocol": "PLAINTEXT"}, None),
    ],
)
def test_authorities_of_the_environment_are_used_unless_the_connection_names_its_own(
    given: dict[str, str], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    found = client_settings(ClientConfig.from_librdkafka(NOWHERE | given)).get("ssl.ca.location")
    assert found == (str(tmp_path / "ca.pem") if expected == "ca.pem" else expected)


CODES = sorted({value for name, value in vars(KafkaError).items() if name.isupper() and isinstance(value, int)})
LOCAL = {
    KafkaError._AUTHENTICATION: AuthenticationFailedError,
    KafkaError._SSL: AuthenticationFailedError,
    KafkaError._TIMED_OUT: RequestTimeoutError,
    KafkaError._TIMED_OUT_QUEUE: RequestTimeoutError,
}


def test_every_code_has_its_kind() -> None:
    assert len(CODES) > 120
    for code in [*CODES, 30_000]:
        error = translated(KafkaError(code), "b1:9092")
        expected: type[KafkaGroupsError] = BrokerError if code >= -1 else LOCAL.get(code, ConnectionFailedError)
        assert type(error) is expected, code
        assert not isinstance(error, BrokerError) or (error.code, error.api) == (code, "Fetch")
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in str(translated(KafkaError(3), "s"))


def test_refused_settings_are_a_configuration_error() -> None:
    error = configuration_error(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.pem failed"))
    assert "ssl.ca.pem failed" in str(error)
