"""Every way to authenticate, on real brokers: certificates, passwords, tokens; and what is said when one is refused."""

import asyncio
import base64
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from tests.lab.cluster import KafkaCluster
from tests.lab.security.certificates import Authority
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

USERS = {"ann": "ann-pass"}
GROUPS = ["one", "two"]
SESSION_SECONDS = 4
AUTHORITY = Authority()


def fill(cluster: KafkaCluster) -> KafkaCluster:
    create_topics(cluster.bootstrap, {"t": 1})
    seed_groups(cluster.bootstrap, GROUPS, {("t", 0): 1})
    return cluster


@pytest.fixture(scope="module")
def with_certificates() -> Iterator[KafkaCluster]:
    """Run a broker that wants a certificate from everyone."""
    config = AUTHORITY.broker_config("SSL")
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=config) as cluster:
        yield fill(cluster)


@pytest.fixture(scope="module")
def with_logins() -> Iterator[KafkaCluster]:
    """Run a broker where users log in over TLS."""
    config = {
        **AUTHORITY.broker_config("SASL_SSL"),
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.login.scram-sha-512.sasl.jaas.config": SCRAM,
        "connections.max.reauth.ms": SESSION_SECONDS * 1000,
    }
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=config) as cluster:
        make_scram_users(cluster.bootstrap)
        yield fill(cluster)


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def make_scram_users(bootstrap: str) -> None:
    kafka: Any = importlib.import_module("confluent_kafka.admin")
    client = kafka.AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        kafka.UserScramCredentialUpsertion(user, kafka.ScramCredentialInfo(mechanism, 4096), password.encode())
        for user, password in USERS.items()
        for mechanism in (kafka.ScramMechanism.SCRAM_SHA_256, kafka.ScramMechanism.SCRAM_SHA_512)
    ]
    for user in wanted:
        for made in client.alter_user_scram_credentials([user]).values():
            made.result(60)


def token(_config: str) -> tuple[str, float]:
    """Make a token that is not signed, as the lab's brokers take it."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": "ann", "iat": now, "exp": now + 3600})
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{text}.", now + 3600


async def groups_seen(cluster: KafkaCluster, **settings: object) -> list[str]:
    named = {name if name == "oauth_cb" else name.replace("_", "."): value for name, value in settings.items()}
    config = ClientConfig.from_librdkafka({"bootstrap.servers": cluster.sasl_bootstrap, **named}, connect_timeout=30)
    async with AdminClient(config) as admin:
        offsets = await admin.list_consumer_group_offsets(GROUPS)
        offsets.raise_for_errors()
        return sorted((await admin.list_groups()).require_complete())


@pytest.mark.parametrize("key_password", [None, "key-pass"])
async def test_a_certificate_and_its_key_as_text(with_certificates: KafkaCluster, key_password: str | None) -> None:
    pair = AUTHORITY.issue("ann", key_password=key_password)
    seen = await groups_seen(
        with_certificates,
        security_protocol="SSL",
        ssl_ca_pem=AUTHORITY.certificate,
        ssl_certificate_pem=pair.certificate,
        ssl_key_pem=pair.key,
        ssl_key_password=key_password,
    )
    assert seen == GROUPS


async def test_without_a_certificate_the_broker_refuses(with_certificates: KafkaCluster) -> None:
    with pytest.raises(KafkaGroupsError) as refused:
        await groups_seen(with_certificates, security_protocol="SSL", ssl_ca_pem=AUTHORITY.certificate)
    assert "asks for a client certificate that it trusts: set ssl_certificate and" in str(refused.value)


async def test_a_wrong_key_password_is_said_before_anything_is_sent(with_certificates: KafkaCluster) -> None:
    pair = AUTHORITY.issue("ann", key_password="right")
    with pytest.raises(ConfigurationError, match="wrong key password") as refused:
        await groups_seen(
            with_certificates,
            security_protocol="SSL",
            ssl_ca_pem=AUTHORITY.certificate,
            ssl_certificate_pem=pair.certificate,
            ssl_key_pem=pair.key,
            ssl_key_password="wr0ng",
        )
    assert "wr0ng" not in str(refused.value)


async def test_a_broker_of_another_authority_is_not_trusted(with_certificates: KafkaCluster) -> None:
    with pytest.raises(AuthenticationFailedError, match=r"TLS handshake failed.*certificate verify failed"):
        await groups_seen(with_certificates, security_protocol="SSL", ssl_ca_pem=Authority().certificate)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_name_and_a_password_over_tls(with_logins: KafkaCluster, mechanism: str) -> None:
    login = {"security_protocol": "SASL_SSL", "ssl_ca_pem": AUTHORITY.certificate, "sasl_mechanism": mechanism}
    assert await groups_seen(with_logins, **login, sasl_username="ann", sasl_password=USERS["ann"]) == GROUPS
    with pytest.raises(AuthenticationFailedError, match="SASL authentication was refused") as refused:
        await groups_seen(with_logins, **login, sasl_username="ann", sasl_password="wr0ng")
    assert "wr0ng" not in str(refused.value)


def test_a_command_prints_nothing_of_its_logins(with_logins: KafkaCluster, tmp_path: Path) -> None:
    """Airflow's logging would have a line for each connection."""
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "ssl_ca_certificate": AUTHORITY.certificate}
    login = {"host": with_logins.sasl_bootstrap, "login": "ann", "password": USERS["ann"], "extra": extra}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")},
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW_CONN_LAB": json.dumps({"conn_type": "kafka_groups", **login}),
    }
    for words in (["list"], ["snapshot", "--storage-path", str(tmp_path / "storage")]):
        program = [sys.executable, "-m", "airflow_kafka_groups", *words, "--conn-id", "lab"]
        done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, "")


async def test_a_token_over_tls(with_logins: KafkaCluster) -> None:
    seen = await groups_seen(
        with_logins,
        security_protocol="SASL_SSL",
        ssl_ca_pem=AUTHORITY.certificate,
        sasl_mechanism="OAUTHBEARER",
        oauth_cb=token,
    )
    assert seen == GROUPS


async def test_a_change_is_not_sent_over_a_connection_whose_login_has_expired(with_logins: KafkaCluster) -> None:
    """The broker closes it without an answer, and nobody could say then whether the change was made."""
    settings = {
        "bootstrap.servers": with_logins.sasl_bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": AUTHORITY.certificate,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": USERS["ann"],
    }
    changes = 0
    until = time.monotonic() + 3 * SESSION_SECONDS
    async with AdminClient(ClientConfig.from_librdkafka(settings, connect_timeout=30)) as admin:
        while time.monotonic() < until:
            changes += 1
            offsets = {GROUPS[0]: {TopicPartition("t", 0): OffsetAndMetadata(changes)}}
            (await admin.alter_consumer_group_offsets(offsets)).raise_for_errors()
            if changes == 1:
                await asyncio.sleep(SESSION_SECONDS + 0.5)
