"""What nodes are configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import properties
from tests.lab.layout import retarget
from tests.lab.properties import Node, broker_properties

NODES = tuple(Node(node_id=i, folder=Path(f"/lab/{i}"), port=100 + i, controller_port=200 + i) for i in (1, 2, 3))
DELAYED = Node(node_id=1, folder=Path("/lab/1"), port=101, controller_port=201, proxy_port=301, inner_port=401)


def test_kraft_nodes_are_brokers_and_voters_that_know_each_other() -> None:
    made = broker_properties("4.1.0", NODES[1], NODES)
    assert made["process.roles"] == "broker,controller"
    assert made["node.id"] == "2"
    assert made["controller.quorum.voters"] == "1@127.0.0.1:201,2@127.0.0.1:202,3@127.0.0.1:203"
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:102,CONTROLLER://127.0.0.1:202"
    assert "zookeeper.connect" not in made


def test_old_versions_get_a_zookeeper_and_no_kraft() -> None:
    made = broker_properties("2.8.2", NODES[1], NODES, zookeeper_port=2181)
    assert made["zookeeper.connect"] == "127.0.0.1:2181"
    assert made["broker.id"] == "2"
    assert "process.roles" not in made


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3")])
def test_offsets_have_as_many_copies_as_brokers_up_to_three(brokers: int, copies: str) -> None:
    assert broker_properties("4.1.0", NODES[0], NODES[:brokers])["offsets.topic.replication.factor"] == copies


def test_clients_of_a_delayed_broker_are_sent_to_its_proxy_and_brokers_are_not() -> None:
    made = broker_properties("4.1.0", DELAYED, (DELAYED,))
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:301,INNER://127.0.0.1:401"
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:101,INNER://127.0.0.1:401,CONTROLLER://127.0.0.1:201"
    assert made["inter.broker.listener.name"] == "INNER"
    assert DELAYED.address == "127.0.0.1:301"


def test_who_may_log_in_has_a_listener_beside_the_plain_one() -> None:
    node = Node(node_id=1, folder=Path("/lab/1"), port=101, controller_port=201, sasl_port=501)
    made = broker_properties("4.1.0", node, (node,), sasl_users={"ann": "secret"})
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:101,LOGIN://127.0.0.1:501"
    assert made["listeners"].endswith("CONTROLLER://127.0.0.1:201,LOGIN://127.0.0.1:501")
    assert made["listener.security.protocol.map"].endswith("LOGIN:SASL_PLAINTEXT")
    assert 'user_ann="secret"' in made["listener.name.login.plain.sasl.jaas.config"]
    assert "LOGIN" not in broker_properties("4.1.0", NODES[0], NODES)["listeners"]


def test_the_callers_configuration_wins_over_the_labs() -> None:
    config = {"offsets.topic.num.partitions": 1, "auto.create.topics.enable": True, "extra": "x"}
    made = broker_properties("4.1.0", NODES[0], NODES, config=config)
    assert made["offsets.topic.num.partitions"] == "1"
    assert made["auto.create.topics.enable"] == "true"
    assert made["extra"] == "x"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.4.0", {"share.version": "1"}), ("4.1.0", {"share.version": "1"}), ("4.0.0", {}), ("3.9.2", {})],
)
def test_share_groups_are_switched_on_where_there_are_any(version: str, expected: dict[str, str]) -> None:
    assert properties.features(version) == expected


def test_values_are_escaped_as_java_reads_them() -> None:
    assert properties.render({"b": "C:\\x", "a": "two\nlines"}) == "a=two\\nlines\nb=C:\\\\x\n"


def test_a_formatted_folder_becomes_another_nodes() -> None:
    before = "#\n#Sat\ncluster.id=abc\ndirectory.id=first\nnode.id=1\nversion=1\n"
    after = dict(line.split("=") for line in retarget(before, 3, "new").splitlines() if "=" in line)
    assert after["node.id"] == "3"
    assert after["cluster.id"] == "new"
    assert after["directory.id"] not in ("", "first")
