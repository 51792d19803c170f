"""Broker configs and topic ids through confluent-kafka, on real brokers of every version."""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    KafkaGroupsError,
    UnsupportedByClientError,
)
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster_admin import ClusterAdmin
from tests.integration.admin.test_security import AUTHORITY, SCRAM, USERS, make_scram_users, token
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.security.certificates import Authority
from tests.lab.workload.topics import create_topics, topic_id_of

TOPIC = "cluster-admin-topic"
RETENTION = {"offsets.retention.minutes": "4321"}


async def test_topic_ids_are_kafkas_own_and_absent_topics_are_left_out(any_kafka: KafkaCluster) -> None:
    where = any_kafka.bootstrap
    await asyncio.to_thread(create_topics, where, {TOPIC: 3})
    admin = ClusterAdmin(config_of(any_kafka))
    before = await admin.topic_ids([TOPIC, "no-such-topic", "not/a/name", TOPIC])
    assert before == {TOPIC: await asyncio.to_thread(topic_id_of, where, TOPIC)}
    assert len(before[TOPIC]) == 22


async def test_asking_creates_no_topic_where_brokers_would(any_kafka: KafkaCluster) -> None:
    await ClusterAdmin(config_of(any_kafka)).topic_ids(["never-created"])
    assert "never-created" not in await asyncio.to_thread(topics_of, any_kafka)


def topics_of(cluster: KafkaCluster) -> list[str]:
    return list(ConfluentAdmin({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60).topics)


async def test_the_retention_of_a_cluster_without_a_setting_is_kafkas_default(any_kafka: KafkaCluster) -> None:
    found = await ClusterAdmin(config_of(any_kafka)).offsets_retention()
    brokers = set(range(1, len(any_kafka.bootstrap.split(",")) + 1))
    assert (found.minutes, found.is_default, found.differs) == (7 * 24 * 60, True, False)
    assert set(found.by_broker) == brokers, found


@pytest.mark.kafka("2.8.2")
async def test_the_retention_that_is_set_on_an_old_broker_is_reported() -> None:
    with KafkaCluster(version="2.8.2", brokers=1, config=RETENTION) as cluster:
        await check_retention(config_of(cluster))


async def check_retention(config: ClientConfig) -> None:
    found = await ClusterAdmin(config).offsets_retention()
    assert (found.minutes, found.is_default, dict(found.errors)) == (4321, False, {})


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """Run a broker where users log in over TLS and ACLs hold: ann may describe one topic and nothing else."""
    config = {
        **RETENTION,
        **AUTHORIZER,
        **AUTHORITY.broker_config("SASL_SSL"),
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.login.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=config) as cluster:
        make_scram_users(cluster.bootstrap)
        create_topics(cluster.bootstrap, {"open": 1, "hidden": 1})
        allow(cluster, "ann", "TOPIC", "open", "DESCRIBE")
        yield cluster


def log_in(cluster: KafkaCluster, mechanism: str, **more: object) -> ClientConfig:
    login = {"sasl.username": "ann", "sasl.password": USERS["ann"]} if mechanism != "OAUTHBEARER" else {}
    return ClientConfig.from_librdkafka(
        {
            "bootstrap.servers": cluster.sasl_bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.pem": AUTHORITY.certificate,
            "sasl.mechanism": mechanism,
            **login,
            **more,
        }
    )


@pytest.mark.kafka("4.1.0")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_every_login_over_tls(guarded: KafkaCluster, mechanism: str) -> None:
    more = {"oauth_cb": token} if mechanism == "OAUTHBEARER" else {}
    admin = ClusterAdmin(log_in(guarded, mechanism, **more))
    assert list(await admin.topic_ids(["open", "hidden"])) == ["open"], "a hidden topic has no id, and is no error"


@pytest.fixture(scope="module")
def with_certificates() -> Iterator[KafkaCluster]:
    """Run a broker that wants a certificate from everyone."""
    config = RETENTION | AUTHORITY.broker_config("SSL")
    with KafkaCluster(version="3.9.2", brokers=1, sasl_users=USERS, config=config) as cluster:
        yield cluster


@pytest.mark.kafka("3.9.2")
@pytest.mark.parametrize("key_password", [None, "key-pass"])
async def test_a_client_certificate(with_certificates: KafkaCluster, key_password: str | None) -> None:
    pair = AUTHORITY.issue("ann", key_password=key_password)
    settings = {
        "bootstrap.servers": with_certificates.sasl_bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.pem": AUTHORITY.certificate,
        "ssl.certificate.pem": pair.certificate,
        "ssl.key.pem": pair.key,
        "ssl.key.password": key_password,
    }
    await check_retention(ClientConfig.from_librdkafka(settings))


@pytest.mark.kafka("4.1.0")
async def test_a_private_authority_of_the_environment_is_trusted_as_by_the_core(
    guarded: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.write_text(AUTHORITY.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    config = log_in(guarded, "PLAIN", **{"ssl.ca.pem": ""})
    async with AdminClient(config) as core:
        assert await core.cluster_id()
    assert list(await ClusterAdmin(config).topic_ids(["open"])) == ["open"]


@pytest.mark.kafka("4.1.0")
async def test_every_certificate_of_a_bundle_is_trusted(guarded: KafkaCluster) -> None:
    bundle = Authority().certificate + AUTHORITY.certificate
    assert list(await ClusterAdmin(log_in(guarded, "PLAIN", **{"ssl.ca.pem": bundle})).topic_ids(["open"])) == ["open"]


@pytest.mark.kafka("4.1.0")
@pytest.mark.safety
async def test_who_may_not_describe_configs_gets_no_number(guarded: KafkaCluster) -> None:
    await check_retention(config_of(guarded))
    found = await ClusterAdmin(log_in(guarded, "PLAIN")).offsets_retention()
    assert found.minutes is None
    ((broker_id, error),) = found.errors.items()
    assert isinstance(error, BrokerError)
    assert (error.name, error.broker_id, error.api) == ("CLUSTER_AUTHORIZATION_FAILED", broker_id, "DescribeConfigs")


@pytest.mark.kafka("4.1.0")
@pytest.mark.safety
async def test_a_wrong_password_is_tried_once_and_shown_nowhere(
    guarded: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with pytest.raises(AuthenticationFailedError, match="SASL authentication") as refused:
        await ClusterAdmin(log_in(guarded, "PLAIN", **{"sasl.password": "wr0ng"})).topic_ids(["open"])
    assert time.monotonic() - began < 5, "not the timeout of the request"
    assert "wr0ng" not in str(refused.value) + caplog.text
    tries = [record for record in caplog.records if "Authentication failed" in record.getMessage()]
    assert len(tries) == 1, "librdkafka's log is Python's, and one try is all"


@pytest.mark.kafka("4.1.0")
async def test_a_broker_of_another_authority_is_not_trusted(guarded: KafkaCluster) -> None:
    with pytest.raises(AuthenticationFailedError, match=r"certificate"):
        await ClusterAdmin(log_in(guarded, "PLAIN", **{"ssl.ca.pem": Authority().certificate})).topic_ids(["open"])


@pytest.mark.safety
async def test_a_cluster_that_is_not_there_is_an_error_and_no_empty_answer() -> None:
    config = ClientConfig.from_librdkafka({"bootstrap.servers": "127.0.0.1:1"}, request_timeout=1)
    with pytest.raises(KafkaGroupsError, match=r"127\.0\.0\.1:1.*refused"):
        await ClusterAdmin(config).topic_ids(["t"])
    with pytest.raises(KafkaGroupsError, match=r"127\.0\.0\.1:1.*refused"):
        await ClusterAdmin(replace(config, api_timeout=0.5)).offsets_retention()


async def test_a_call_that_nobody_waits_for_ends() -> None:
    config = ClientConfig.from_librdkafka({"bootstrap.servers": "127.0.0.1:1"}, request_timeout=30)
    call = asyncio.create_task(ClusterAdmin(config).topic_ids(["t"]))
    await asyncio.sleep(0.3)
    call.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.get_running_loop().shutdown_default_executor()
    assert time.monotonic() - began < 5


async def test_kerberos_says_what_to_install() -> None:
    config = ClientConfig.from_librdkafka(
        {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    )
    with pytest.raises(UnsupportedByClientError, match="--no-binary confluent-kafka"):
        await ClusterAdmin(config).topic_ids(["t"])
