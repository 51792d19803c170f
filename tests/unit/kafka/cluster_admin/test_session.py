"""One call of a confluent-kafka client, and the brokers' retention of offsets."""

import logging
import time

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
    UnsupportedByClientError,
)
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster_admin.client import (
    OFFSETS_RETENTION,
    ClusterAdmin,
    ConfigEntry,
    offsets_retention_of,
)

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SECRET = "s3cr3t-t0ken"


def admin(**settings: object) -> ClusterAdmin:
    named = {name if name == "oauth_cb" else name.replace("_", "."): value for name, value in settings.items()}
    return ClusterAdmin(ClientConfig.from_librdkafka(NOWHERE | named, request_timeout=20))


async def test_the_error_of_a_token_source_is_raised_as_it_is_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_config: str) -> tuple[str, float]:
        raise ConnectionFailedError("the token endpoint", "is down")

    began = time.monotonic()
    with pytest.raises(ConnectionFailedError, match="the token endpoint: is down"):
        await admin(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", oauth_cb=refuse).topic_ids(["t"])
    assert time.monotonic() - began < 5, "librdkafka would wait ten seconds for a token"


@pytest.mark.safety
async def test_no_secret_is_in_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    with pytest.raises(ConfigurationError) as refused:
        await admin(security_protocol="SSL", ssl_key_pem=key, ssl_key_password=SECRET).topic_ids(["t"])
    assert SECRET not in str(refused.value) + repr(refused.value.__cause__) + caplog.text


async def test_kerberos_says_what_to_install() -> None:
    with pytest.raises(UnsupportedByClientError, match="--no-binary confluent-kafka"):
        await admin(security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI").topic_ids(["t"])


async def test_no_topics_are_no_question() -> None:
    assert await admin().topic_ids([]) == {}


DENIED = BrokerError(31, "CLUSTER_AUTHORIZATION_FAILED", "no", api="DescribeConfigs", broker_id=2)


def told(value: str | None, *, is_default: bool = False) -> dict[str, ConfigEntry]:
    other = ConfigEntry(value="1", is_default=True)
    return {"other": other, OFFSETS_RETENTION: ConfigEntry(value=value, is_default=is_default)}


def test_the_smallest_value_counts_and_differing_ones_are_reported() -> None:
    found = offsets_retention_of({1: told("10080", is_default=True), 2: told("60")})
    assert (found.minutes, found.differs, found.is_default) == (60, True, False)
    assert dict(found.by_broker) == {1: 10_080, 2: 60}
    assert found.defaults == {1}


def test_a_value_that_every_broker_has_by_default_is_marked_so() -> None:
    found = offsets_retention_of({1: told("10080", is_default=True), 2: told("10080", is_default=True)})
    assert (found.minutes, found.differs, found.is_default) == (10_080, False, True)


@pytest.mark.safety
@pytest.mark.parametrize("answer", [DENIED, {}, told(None), told(""), told("-1"), told("soon")])
def test_a_broker_that_does_not_tell_leaves_no_number(answer: dict[str, ConfigEntry] | KafkaGroupsError) -> None:
    found = offsets_retention_of({1: told("60", is_default=True), 2: answer})
    assert (found.minutes, found.is_default) == (None, False)
    assert list(found.errors) == [2]
    assert "2" in str(found.errors[2])


@pytest.mark.safety
def test_no_broker_is_no_number() -> None:
    assert offsets_retention_of({}).minutes is None
