"""Logins by Kerberos with a real key distribution centre: ``make test-kerberos``, apart since ``gssapi`` has no wheels.

To build it, pip needs the headers of MIT Kerberos (libkrb5-dev).
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.connection import read_connection
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.spark.kafka.connection_files import write_source_settings
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import GroupsReader
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.security.kerberos import Kerberos
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics

pytestmark = [pytest.mark.timeout(240), pytest.mark.safety]

GROUP = "kerberos-group"


@pytest.fixture(scope="module")
def kerberos() -> Iterator[Kerberos]:
    with Kerberos("ann", "ben") as started:
        yield started


@pytest.fixture(scope="module")
def cluster(kerberos: Kerberos) -> Iterator[KafkaCluster]:
    """Run a broker that lets ann see the group, and ben nothing."""
    with kerberos.cluster(config=AUTHORIZER) as started:
        create_topics(started.bootstrap, {"t": 1})
        commit_offsets(started.bootstrap, {GROUP: {("t", 0): 1}})
        allow(started, "ann", "GROUP", "*", "DESCRIBE")
        yield started


@pytest.fixture(autouse=True)
def environment(kerberos: Kerberos, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lead this process to the centre, without a ticket or a keytab of its own."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberos.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'no-tickets'}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


def config(cluster: KafkaCluster, **login: Any) -> ClientConfig:
    given = {
        "bootstrap.servers": cluster.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    }
    return ClientConfig.from_librdkafka(given | {f"sasl.kerberos.{name}": str(value) for name, value in login.items()})


async def groups(config: ClientConfig) -> set[str]:
    async with AdminClient(config) as admin:
        return {*(await admin.list_groups()).require_complete()}


async def test_the_keytab_and_the_principal_of_a_connection_decide_who_it_is(
    kerberos: Kerberos, cluster: KafkaCluster
) -> None:
    """Several at once: tickets are the process', and one connection must not log in by another's."""
    ann, ben = (config(cluster, keytab=kerberos.keytab, principal=kerberos.principal(user)) for user in ("ann", "ben"))

    found = await asyncio.gather(*(groups(each) for each in (ann, ben) * 3))

    assert found == [{GROUP}, set()] * 3


async def test_without_a_principal_it_is_that_of_the_environments_keytab(
    kerberos: Kerberos, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KafkaGroupsError, match=r"could not be opened: .*No (Kerberos )?credentials"):
        await groups(config(cluster))
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{kerberos.keytab}")
    assert await groups(config(cluster)) in ({GROUP}, set())  # whose key is the first one


async def test_what_does_not_fit_is_said(kerberos: Kerberos, cluster: KafkaCluster, tmp_path: Path) -> None:
    stranger = config(cluster, keytab=kerberos.keytab, principal=kerberos.principal("carol"))
    with pytest.raises(KafkaGroupsError, match=r"carol@LAB\.TEST"):
        await groups(stranger)
    with pytest.raises(ConfigurationError, match=r"sasl\.kerberos\.keytab .*cannot be read on"):
        await groups(config(cluster, keytab=tmp_path / "none.keytab"))
    other = config(cluster, keytab=kerberos.keytab, principal=kerberos.principal("ann"), **{"service.name": "other"})
    with pytest.raises(KafkaGroupsError, match="other/"):
        await groups(other)


async def test_the_spark_source_logs_in_by_an_airflow_connection(
    kerberos: Kerberos, cluster: KafkaCluster, tmp_path: Path
) -> None:
    login = {"sasl.kerberos.keytab": str(kerberos.keytab), "sasl.kerberos.principal": kerberos.principal("ann")}
    extra = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "properties": login}
    given = Connection(conn_id="c", conn_type="kafka_groups", host=cluster.sasl_bootstrap, extra=json.dumps(extra))
    file = write_source_settings(read_connection(given), tmp_path / "kafka.json")

    chunks = await asyncio.to_thread(GroupsReader(SourceOptions.parse({"config.file": str(file)})).partitions)

    assert [name for chunk in chunks for name in chunk.groups["group_id"].to_pylist()] == [GROUP]
