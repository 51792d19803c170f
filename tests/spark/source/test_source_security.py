"""The data source through a connection's file, on real brokers that insist on logins and certificates.

Each way in gives the rows that the admin core gives through the same connection, and its secrets are seen nowhere: not
in plans, on Spark's pages, nor in what a refused login raises.
"""

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.hooks.connection import airflow_token_source, read_connection
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec
from airflow_kafka_groups.spark.kafka.connection_files import write_source_settings
from airflow_kafka_groups.spark.source import register
from tests.lab.cluster import KafkaCluster
from tests.lab.security.certificates import Authority
from tests.lab.security.oidc import Provider, oidc_connection
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.safety]

USER, SECRET, WRONG = "reader", 'hu"sh \\ 9f2c', "wr0ng-7b1d"
AUTHORITY = Authority()
GROUPS = {f"secured-{number}": {("t", 0): 5 + number, ("t", 1): 7} for number in range(5)}


@dataclass(frozen=True)
class Way:
    """A way into a cluster: the connection with a secret, and the texts that nobody may see."""

    cluster: KafkaCluster
    connection: Callable[[str], Any]
    hidden: tuple[str, ...] = (SECRET,)


def way_by_scram(stack: ExitStack, protocol: str, mechanism: str) -> Way:
    config: dict[str, object] = {
        "sasl.enabled.mechanisms": mechanism,
        f"listener.name.login.{mechanism.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    if protocol == "SASL_SSL":
        config |= AUTHORITY.broker_config(protocol)
    cluster = stack.enter_context(KafkaCluster(brokers=1, sasl_users={USER: "unused"}, config=config))
    kafka: Any = importlib.import_module("confluent_kafka.admin")
    credential = kafka.ScramCredentialInfo(getattr(kafka.ScramMechanism, mechanism.replace("-", "_")), 4096)
    wanted = kafka.UserScramCredentialUpsertion(USER, credential, SECRET.encode())
    admin = kafka.AdminClient(quiet(cluster.bootstrap))  # kept: what it is asked ends with it
    for made in admin.alter_user_scram_credentials([wanted]).values():
        made.result(60)
    extra = {"security_protocol": protocol, "sasl_mechanism": mechanism, "ssl_ca_certificate": AUTHORITY.certificate}
    return Way(cluster, lambda password: connection(cluster, USER, password, **extra))


def way_by_certificate(stack: ExitStack) -> Way:
    config = AUTHORITY.broker_config("SSL")
    cluster = stack.enter_context(KafkaCluster(brokers=1, sasl_users={USER: "unused"}, config=config))
    own, stranger = AUTHORITY.issue(USER, key_password=SECRET), Authority().issue(USER, key_password=SECRET)

    def made(secret: str) -> Any:
        pair = own if secret == SECRET else stranger  # whose authority the brokers do not know
        extra = {"ssl_certificate": pair.certificate, "ssl_private_key": pair.key, "ssl_key_password": SECRET}
        extra |= {"security_protocol": "SSL", "ssl_ca_certificate": AUTHORITY.certificate}
        return connection(cluster, None, None, **extra)

    lines = [pair.key.splitlines()[2] for pair in (own, stranger)]
    return Way(cluster, made, (SECRET, *lines))


def way_by_tokens(stack: ExitStack) -> Way:
    provider = stack.enter_context(Provider({USER: SECRET}))
    cluster = stack.enter_context(provider.cluster())
    return Way(cluster, lambda secret: oidc_connection(cluster.sasl_bootstrap, provider.token_url, USER, secret))


WAYS: dict[str, Callable[[ExitStack], Way]] = {
    "scram": lambda stack: way_by_scram(stack, "SASL_PLAINTEXT", "SCRAM-SHA-256"),
    "scram over TLS": lambda stack: way_by_scram(stack, "SASL_SSL", "SCRAM-SHA-512"),
    "certificate": way_by_certificate,
    "tokens": way_by_tokens,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    with ExitStack() as stack:
        found = WAYS[request.param](stack)
        create_topics(found.cluster.bootstrap, {"t": 2})
        commit_offsets(found.cluster.bootstrap, GROUPS)
        yield found


def connection(cluster: KafkaCluster, login: str | None, password: str | None, **extra: Any) -> Any:
    """An Airflow connection of the type ``kafka_groups``."""
    fields = {"conn_id": "c", "conn_type": "kafka_groups", "host": cluster.sasl_bootstrap, "port": None}
    return SimpleNamespace(**fields, login=login, password=password, extra=json.dumps(extra))


async def rows_of_the_core(given: Any) -> set[tuple[Any, ...]]:
    config = ClientConfig.from_librdkafka(read_connection(given).properties, token_source=airflow_token_source)
    async with AdminClient(config) as admin:
        listed = (await admin.list_groups()).require_complete()
        results = await admin.list_consumer_group_offsets(listed)
        results.raise_for_errors()
        keys = {key for offsets in results.succeeded.values() for key in offsets}
        ends = await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.latest()))
    found = {key: listed.offset for key, listed in ends.items() if isinstance(listed, ListedOffset)}
    return {
        (group_id, key.topic, key.partition, value.offset, value.leader_epoch, value.metadata, found[key])
        for group_id, offsets in results.succeeded.items()
        for key, value in offsets.items()
        if value is not None
    }


async def test_a_connection_reaches_brokers_through_its_file_and_its_secrets_are_seen_nowhere(
    spark: SparkSession, way: Way, tmp_path: Path
) -> None:
    register(spark)
    given = way.connection(SECRET)
    file = write_source_settings(read_connection(given), tmp_path / "kafka.json")
    secured = read(spark, file)
    names = ("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_end")
    rows = {tuple(row[name] for name in names) for row in secured.collect()}
    assert rows == await rows_of_the_core(given)
    assert {row[0] for row in rows} == set(GROUPS)

    file.unlink()
    write_source_settings(read_connection(way.connection(WRONG)), file)
    with pytest.raises(PySparkException, match=r"the executor on .* cannot read the groups: ") as on_executor:
        secured.collect()  # planned above
    with pytest.raises(PySparkException, match=r"the driver on .* cannot read the groups: ") as on_driver:
        read(spark, file).collect()
    shown = [str(on_executor.value), str(on_driver.value), *shown_of(secured), *pages_of(spark)]
    shown += [str(spark.sparkContext.getConf().getAll())]
    assert any("kafka_groups" in text for text in shown)
    for secret in (*way.hidden, WRONG, json.dumps(SECRET)[1:-1]):
        assert all(secret not in text for text in shown)


def read(spark: SparkSession, file: Path) -> DataFrame:
    return spark.read.format("kafka_groups").option("config.file", str(file)).load()


def shown_of(frame: DataFrame) -> list[str]:
    assert frame.sparkSession._jvm is not None
    modes = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    plan = frame._jdf.queryExecution()
    return [plan.toString(), *(plan.explainString(modes.fromString(name)) for name in ("extended", "formatted"))]


def pages_of(spark: SparkSession) -> list[str]:
    """Return what Spark's web pages and their REST interface show of all queries: they read it from this store."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    found = [executions.apply(number) for number in range(executions.size())]
    assert found
    return [str(text) for each in found for text in (each.physicalPlanDescription(), each.modifiedConfigs(), each)]
