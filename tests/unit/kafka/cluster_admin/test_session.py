"""A session without a cluster: what ends a call before its timeout."""

from __future__ import annotations

import logging
import time

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, UnsupportedByClientError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster_admin.client import ClusterAdmin

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
