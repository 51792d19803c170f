"""A connection's settings reach Spark whole: certificates, passwords, SCRAM, on real brokers that insist on them."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.hooks.connection import read_connection
from airflow_kafka_groups.spark.jobs.process_group_backlog import process_backlog
from airflow_kafka_groups.spark.kafka.connection_files import write_spark_properties
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from tests.lab.cluster import KafkaCluster
from tests.lab.security.certificates import Authority
from tests.lab.security.kerberos import Kerberos
from tests.lab.security.oidc import Provider, oidc_connection
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import quiet
from tests.spark.kafka import committed, fill

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

USER, PASSWORD = "ann", 'quo"ted \\ p4ss'
AUTHORITY = Authority()
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def with_certificates() -> Iterator[KafkaCluster]:
    config = AUTHORITY.broker_config("SSL")
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users={USER: "unused"}, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def with_logins() -> Iterator[KafkaCluster]:
    config = {
        **AUTHORITY.broker_config("SASL_SSL"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users={USER: "plain-p4ss"}, config=config) as cluster:
        kafka: Any = importlib.import_module("confluent_kafka.admin")
        admin = kafka.AdminClient(quiet(cluster.bootstrap))
        credential = kafka.ScramCredentialInfo(kafka.ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = kafka.UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        for made in admin.alter_user_scram_credentials([wanted]).values():
            made.result(60)
        yield cluster


def connection(cluster: KafkaCluster, *, password: str | None = None, **extra: Any) -> Any:
    """An Airflow connection of the type ``kafka_groups``."""
    login = {"login": USER if password else None, "password": password}
    fields = {"conn_id": "c", "conn_type": "kafka_groups", "host": cluster.sasl_bootstrap, "port": None, **login}
    return SimpleNamespace(**fields, extra=json.dumps({"ssl_ca_certificate": AUTHORITY.certificate, **extra}))


def check(spark: SparkSession, cluster: KafkaCluster, given: Any, folder: Path, name: str) -> None:
    """Process a backlog over this connection: Spark's source reads, the driver's client commits."""
    fill(cluster.bootstrap, {(name, 0): 3})
    commit_offsets(cluster.bootstrap, {name: {(name, 0): 1}})
    path = write_spark_properties(read_connection(given), folder / f"{name}.properties")
    counted: list[int] = []

    def count(records: DataFrame) -> None:
        counted.append(records.count())

    process_backlog(spark, load_properties(spark, str(path)), name, count)
    assert counted == [2]
    assert committed(cluster.bootstrap, name, (name, 0)) == [3]


@pytest.mark.parametrize("key_password", [None, "key-p4ss"])
@pytest.mark.connector
def test_a_certificate_and_its_key(
    spark: SparkSession, with_certificates: KafkaCluster, tmp_path: Path, key_password: str | None
) -> None:
    pair = AUTHORITY.issue(USER, key_password=key_password)
    own = {"ssl_certificate": pair.certificate, "ssl_private_key": pair.key, "ssl_key_password": key_password}
    given = connection(with_certificates, security_protocol="SSL", **own)
    check(spark, with_certificates, given, tmp_path, f"sec-tls-{'hidden' if key_password else 'open'}")


@pytest.mark.parametrize(("mechanism", "password"), [("PLAIN", "plain-p4ss"), ("SCRAM-SHA-512", PASSWORD)])
@pytest.mark.connector
def test_a_password_over_tls(
    spark: SparkSession, with_logins: KafkaCluster, tmp_path: Path, mechanism: str, password: str
) -> None:
    given = connection(with_logins, password=password, security_protocol="SASL_SSL", sasl_mechanism=mechanism)
    check(spark, with_logins, given, tmp_path, f"sec-{mechanism.lower()}")


@pytest.mark.safety
@pytest.mark.connector
def test_a_password_that_is_refused_is_told_and_not_shown(
    spark: SparkSession, with_logins: KafkaCluster, tmp_path: Path
) -> None:
    given = connection(with_logins, password="wr0ng-p4ss", security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    path = write_spark_properties(read_connection(given), tmp_path / "kafka.properties")
    properties = load_properties(spark, str(path))
    assert "p4ss" not in repr(properties)
    with pytest.raises(JobError, match=re.escape("SaslAuthenticationException: Authentication failed")) as refused:
        process_backlog(spark, properties, "g", lambda records: None)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.safety
@pytest.mark.connector
def test_a_client_secret_that_the_token_endpoint_refuses_is_told_and_not_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Provider({"jobs": "right"}) as provider:
        given = oidc_connection("127.0.0.1:9", provider.token_url, "jobs", "wr0ng-s3cret")
        path = write_spark_properties(read_connection(given), tmp_path / "kafka.properties")
        with pytest.raises(JobError, match=r"^the Kafka client cannot be made: .*401.*invalid_client") as refused:
            process_backlog(spark, load_properties(spark, str(path)), "g", lambda records: None)
    assert "\n" not in str(refused.value), "Java's own message is a stack trace"
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("sasl.jaas.config", 'X required username="ann" password="quo\\"ted";', 'quo"ted'),
        ("sasl.jaas.config", 'X required clientSecret = "s1";', "s1"),
        ("ssl.keystore.key", "-----BEGIN k1", "-----BEGIN k1"),
        ("ssl.key.password", "p1", "p1"),
    ],
)
@pytest.mark.safety
def test_what_a_library_says_is_shown_without_secrets(name: str, value: str, secret: str) -> None:
    properties = KafkaProperties({"bootstrap.servers": "b:1", name: value})
    assert properties.without_secrets(f"ann at b:1 said {secret}, {value}").count("***") >= 2
    assert secret not in properties.without_secrets(f"ann at b:1 said {secret}")
    assert properties.without_secrets("ann at b:1") == "ann at b:1"


@pytest.mark.connector
def test_a_keytab(spark: SparkSession, tmp_path: Path) -> None:
    with Kerberos("ann") as kerberos, kerberos.cluster() as cluster:
        # Where krb5.conf is not in /etc, a JVM is told by an option; this one runs already.
        spark._jvm.java.lang.System.setProperty("java.security.krb5.conf", str(kerberos.config))  # type: ignore[union-attr]
        spark._jvm.sun.security.krb5.Config.refresh()  # type: ignore[union-attr]

        def keys_of(user: str) -> Any:
            own = {"sasl.kerberos.keytab": str(kerberos.keytab), "sasl.kerberos.principal": kerberos.principal(user)}
            return connection(cluster, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI", properties=own)

        check(spark, cluster, keys_of("ann"), tmp_path, "sec-keytab")
        path = write_spark_properties(read_connection(keys_of("bob")), tmp_path / "bob.properties")
        with pytest.raises(JobError, match=r"^the Kafka client cannot be made: LoginException: .*Check the Kafka prop"):
            process_backlog(spark, load_properties(spark, str(path)), "g", lambda records: None)
