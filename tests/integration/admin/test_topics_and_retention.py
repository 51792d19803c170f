"""Topic ids, the retention of offsets, and reading of records, on real brokers of every version."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.kafka import TopicPartition
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient, OffsetsRetention
from airflow_kafka_groups.kafka.records import Span
from tests.integration.admin.test_security import AUTHORITY, SCRAM, USERS, make_scram_users, token
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.security.certificates import Authority
from tests.lab.workload.topics import create_topics, topic_id_of

TOPIC = "topic-with-an-id"
RETENTION = {"offsets.retention.minutes": "4321"}


async def topic_ids(config: ClientConfig, topics: Sequence[str]) -> dict[str, str]:
    async with MaintenanceClient(config) as admin:
        return await admin.topic_ids(topics)


async def retention(config: ClientConfig) -> OffsetsRetention:
    async with MaintenanceClient(config) as admin:
        return await admin.offsets_retention()


async def reaches_the_end(config: ClientConfig) -> bool:
    """Read an empty topic as librdkafka does it."""
    async with MaintenanceClient(config) as admin:
        (found,) = await admin.read_records([Span(where=TopicPartition("open", 0), start=0)], bool)
    return found.is_end


async def test_topic_ids_are_kafkas_own_and_asking_creates_no_topic(any_kafka: KafkaCluster) -> None:
    where = any_kafka.bootstrap
    await asyncio.to_thread(create_topics, where, {TOPIC: 3})
    found = await topic_ids(config_of(any_kafka), [TOPIC, "never-created", "not/a/name", TOPIC])
    assert found == {TOPIC: await asyncio.to_thread(topic_id_of, where, TOPIC)}
    assert "never-created" not in ConfluentAdmin({"bootstrap.servers": where}).list_topics(timeout=60).topics


async def test_the_retention_of_a_cluster_without_a_setting_is_kafkas_default(any_kafka: KafkaCluster) -> None:
    found = await retention(config_of(any_kafka))
    assert found.minutes == 7 * 24 * 60
    assert set(found.by_broker) == set(range(1, len(any_kafka.bootstrap.split(",")) + 1)), found


@pytest.mark.kafka("2.8.2")
async def test_the_retention_that_is_set_on_an_old_broker_is_reported() -> None:
    with KafkaCluster(version="2.8.2", brokers=1, config=RETENTION) as cluster:
        assert (await retention(config_of(cluster))).minutes == 4321


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """Run a broker where users log in over TLS and ACLs hold: ann may describe and read one topic and nothing else."""
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
        allow(cluster, "ann", "TOPIC", "open", "READ")
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
    config = log_in(guarded, mechanism, **more)
    assert list(await topic_ids(config, ["open", "hidden"])) == ["open"], "a hidden topic has no id, and is no error"
    assert await reaches_the_end(config)


@pytest.mark.kafka("3.9.2")
async def test_a_client_certificate() -> None:
    config = AUTHORITY.broker_config("SSL")
    with KafkaCluster(version="3.9.2", brokers=1, sasl_users=USERS, config=config) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"open": 1})
        for password in (None, "key-pass"):
            pair = AUTHORITY.issue("ann", key_password=password)
            settings = {
                "bootstrap.servers": cluster.sasl_bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.pem": AUTHORITY.certificate,
                "ssl.certificate.pem": pair.certificate,
                "ssl.key.pem": pair.key,
                "ssl.key.password": password,
            }
            assert await reaches_the_end(ClientConfig.from_librdkafka(settings))


@pytest.mark.kafka("4.1.0")
async def test_authorities_of_the_environment_and_of_a_bundle_are_trusted(
    guarded: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Authority().certificate + AUTHORITY.certificate
    assert await reaches_the_end(log_in(guarded, "PLAIN", **{"ssl.ca.pem": bundle}))
    certificate = tmp_path / "ca.pem"
    certificate.write_text(AUTHORITY.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await reaches_the_end(log_in(guarded, "PLAIN", **{"ssl.ca.pem": ""}))


@pytest.mark.kafka("4.1.0")
@pytest.mark.safety
async def test_who_may_not_describe_configs_gets_no_number(guarded: KafkaCluster) -> None:
    assert (await retention(config_of(guarded))).minutes == 4321
    found = await retention(log_in(guarded, "PLAIN"))
    assert found.minutes is None
    ((broker_id, error),) = found.errors.items()
    assert isinstance(error, BrokerError)
    assert (error.name, error.broker_id, error.api) == ("CLUSTER_AUTHORIZATION_FAILED", broker_id, "DescribeConfigs")
