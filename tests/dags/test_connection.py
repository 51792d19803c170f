"""The Test button on real brokers: what it says of old and new ones, of users and ACLs."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from tests.dags.runs import connect
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

USERS = {"admin": "a-pass", "reader": "r-pass", "keeper": "k-pass"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """Run a broker where users log in and ACLs hold: three groups, and two topics that they read."""
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=AUTHORIZER) as cluster:
        create_topics(cluster.bootstrap, {"paid": 1, "secret": 1})
        seed_groups(cluster.bootstrap, ["a1", "a2", "b1"], {("paid", 0): 1, ("secret", 0): 1})
        allow(cluster, "reader", "GROUP", "*", "DESCRIBE")
        allow(cluster, "reader", "BROKER", "kafka-cluster", "DESCRIBE")
        allow(cluster, "reader", "TOPIC", "*", "DESCRIBE")
        allow(cluster, "keeper", "GROUP", "a", "DELETE", "READ", prefixed=True)
        allow(cluster, "keeper", "TOPIC", "paid", "READ")
        allow(cluster, "keeper", "GROUP", "airflow-kafka-groups-lease", "READ")
        yield cluster


def test_connection(monkeypatch: pytest.MonkeyPatch, host: str, **fields: Any) -> tuple[bool, str]:
    connect(monkeypatch, host, "tested", **fields)
    return KafkaGroupsHook("tested").test_connection()


test_connection.__test__ = False  # type: ignore[attr-defined]  # a helper, by the name of what it calls


def log_in(monkeypatch: pytest.MonkeyPatch, cluster: KafkaCluster, user: str, **more: Any) -> tuple[bool, str]:
    given = {"login": user, "password": USERS[user], **more}
    extra = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **given.pop("extra", {})}
    return test_connection(monkeypatch, cluster.sasl_bootstrap, extra=extra, **given)


@pytest.mark.kafka("4.1.0")
def test_who_may_do_everything_is_told_so(guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done, said = log_in(monkeypatch, guarded, "admin", extra={"read_only": True})
    assert done, said
    assert "1 broker, with the APIs of Kafka 4.1. 3 groups listed, and the listing is complete." in said
    assert "Allowed with" not in said
    assert said.endswith("This connection is read-only.")


@pytest.mark.kafka("4.1.0")
def test_who_may_only_look_is_told_so(guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done, said = log_in(monkeypatch, guarded, "reader")
    assert done, said
    assert "3 groups listed" in said
    assert "Delete groups: Allowed with 0 of 3 groups. Restore groups: Allowed with 0 of 3 groups." in said
    assert "All topics:" not in said
    assert "How long brokers keep the offsets of idle groups is not known: DescribeConfigs" in said, "and no number"
    assert "The lease airflow-kafka-groups-lease cannot be taken" in said, "also of a group that is not there"


@pytest.mark.kafka("4.1.0")
def test_what_acls_hide_is_said(guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done, said = log_in(monkeypatch, guarded, "keeper")
    assert done, said
    assert "2 groups listed" in said
    assert "All groups: " in said, "there may be more"
    assert "Delete groups:" not in said
    assert "Lease:" not in said
    assert "All topics: Brokers leave topics" in said, "brokers leave the topic 'secret' out without a word"


@pytest.mark.kafka("4.1.0")
def test_a_wrong_password_is_said_in_a_sentence_without_it(
    guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, said = log_in(monkeypatch, guarded, "reader", password="wr0ng-p4ss")
    assert not done
    assert "Invalid username or password" in said
    assert "wr0ng-p4ss" not in said


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("kafka28", "3 brokers, with the APIs of Kafka 2.8."),
        ("kafka39", "1 broker, with the APIs of Kafka 3.9."),
        ("kafka41", "3 brokers, with the APIs of Kafka 4.1."),
        ("kafka44", "1 broker, with the APIs of Kafka 4.4."),
    ],
)
def test_it_says_what_brokers_it_found(
    request: pytest.FixtureRequest, fixture: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = request.getfixturevalue(fixture)
    name = f"connection-test-{uuid4().hex[:8]}"
    create_topics(cluster.bootstrap, {name: 1})
    seed_groups(cluster.bootstrap, [name], {(name, 0): 1})
    done, said = test_connection(monkeypatch, cluster.bootstrap)
    assert done, said
    assert expected in said
    assert "Brokers keep the offsets of a group without members for 7d, the idle time is 7d." in said
    assert "groups: Allowed" not in said
