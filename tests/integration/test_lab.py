"""The lab itself, on real brokers: up, killed, back again, gone."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.demo.workload import LEFT_BY, LEFT_TOPIC, DemoWorkload
from tests.lab import layout, tools
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.jars import REPOSITORY
from tests.lab.machine import ports
from tests.lab.machine.waiting import until
from tests.lab.wire import connect_any
from tests.lab.workload.groups import commit_offsets, list_groups, seed_groups
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, delete_topics, produce

pytestmark = pytest.mark.timeout(240)


def brokers_seen_at(address: str) -> set[int]:
    with connect_any(address, timeout=10) as connection:
        return {int(broker.node_id) for broker in connection.metadata().brokers}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ports.HOST, port)) == 0


@pytest.fixture(scope="module")
def own() -> Iterator[KafkaCluster]:
    """Run three brokers that nobody else uses, so that they may be killed and filled."""
    with KafkaCluster(version="4.1.0", brokers=3) as cluster:
        yield cluster


def test_a_killed_broker_is_missed_and_comes_back_with_its_data(own: KafkaCluster) -> None:
    create_topics(own.bootstrap, {"kill": 3}, replication_factor=3)
    seed_groups(own.bootstrap, ["kill-a", "kill-b"], {("kill", 0): 7})
    own.kill(2)
    assert own.running == (1, 3)
    until(lambda: brokers_seen_at(own.address(1)) == {1, 3})
    own.restart(2)
    assert own.running == own.brokers == (1, 2, 3)
    assert brokers_seen_at(own.address(2)) == {1, 2, 3}
    assert {"kill-a", "kill-b"} <= list_groups(own.bootstrap).keys()


def test_a_broker_that_is_not_there_cannot_be_killed(own: KafkaCluster) -> None:
    with pytest.raises(LabError, match="There is no broker 9; this cluster has 1, 2, 3"):
        own.kill(9)


def test_the_demos_workload_is_what_it_says_it_is(own: KafkaCluster) -> None:
    with DemoWorkload(own) as workload:
        listed = list_groups(own.bootstrap)
        assert workload.groups <= listed.keys()
        assert {listed[group].state for group in workload.live} == {"Stable"}
        assert {listed[group].type for group in workload.live} == {"classic", "consumer"}
        assert {listed[group].state for group in workload.moving | workload.stale | workload.protected} == {"Empty"}
        assert {listed[group].type for group in workload.share} == {"share"}
        left = [row[2] for row in _committed(own, LEFT_BY) if row[0] == LEFT_TOPIC]
        assert left == ["500"] * 3, "a live group has offsets of a topic that it has left"
        group = min(workload.moving)
        before = _committed(own, group)
        assert before
        until(lambda: _committed(own, group) != before)
        workload.check()


def _committed(cluster: KafkaCluster, group: str) -> list[list[str]]:
    """Return topic, partition and committed offset of a group, as Kafka's own tool reads them."""
    rows = [line.split() for line in tools.consumer_groups(cluster, "--describe", "--group", group).splitlines()]
    return sorted(row[1:4] for row in rows if row[:1] == [group])


def test_kafka_2_8_runs_three_brokers_with_a_zookeeper(kafka28: KafkaCluster) -> None:
    assert all(brokers_seen_at(kafka28.address(node_id)) == {1, 2, 3} for node_id in kafka28.brokers)
    assert len(kafka28.pids) == 4
    create_topics(kafka28.bootstrap, {"lab-old": 2})
    commit_offsets(kafka28.bootstrap, {"lab-old-group": {("lab-old", 1): 0}})
    assert _committed(kafka28, "lab-old-group") == [["lab-old", "1", "0"]]


@pytest.mark.parametrize(
    ("fixture", "protocol"), [("kafka39", "classic"), ("kafka44", "classic"), ("kafka44", "consumer")]
)
def test_single_brokers_serve_real_members(
    fixture: str, protocol: Literal["classic", "consumer"], request: pytest.FixtureRequest
) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    name = f"lab-{protocol}"
    create_topics(cluster.bootstrap, {name: 2})
    produce(cluster.bootstrap, {(name, 0): 5, (name, 1): 5})
    with LiveConsumer(cluster.bootstrap, name, [name], protocol=protocol, commit_every=0.1) as consumer:
        consumer.wait_committed()
        assert list_groups(cluster.bootstrap)[name] == (protocol, "Stable")
    until(lambda: list_groups(cluster.bootstrap)[name] == (protocol, "Empty"))


@pytest.mark.parametrize("fixture", ["kafka41", "kafka44"])
def test_a_share_group_outlives_its_consumer(fixture: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    create_topics(cluster.bootstrap, {"lab-share": 1})
    with tools.share_consumer(cluster, "lab-share-group", "lab-share") as process:
        assert process.is_running()
    assert not process.is_running()
    until(lambda: list_groups(cluster.bootstrap)["lab-share-group"] == ("share", "Empty"))


def test_what_brokers_refuse_is_said_plainly(kafka44: KafkaCluster) -> None:
    create_topics(kafka44.bootstrap, {"lab-twice": 1})
    with pytest.raises(LabError, match=r"Cannot create the topic lab-twice: .*already exists"):
        create_topics(kafka44.bootstrap, {"lab-twice": 1})
    delete_topics(kafka44.bootstrap, ["lab-twice"])
    with pytest.raises(LabError, match=r"Cannot delete the topic lab-twice: "):
        delete_topics(kafka44.bootstrap, ["lab-twice"])


def test_a_taken_port_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as squatter:
        squatter.bind((ports.HOST, 0))
        squatter.listen()
        taken = [squatter.getsockname()[1]]

        def unlucky_once(count: int) -> list[int]:
            return [*(taken.pop() for _ in taken[:1]), *ports.free_ports(count)][:count]

        monkeypatch.setattr(layout, "free_ports", unlucky_once)
        with KafkaCluster(version="4.4.0", brokers=1) as cluster:
            assert not taken
            assert brokers_seen_at(cluster.bootstrap) == {1}


def test_a_broker_that_cannot_start_shows_its_log_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster = KafkaCluster(version="4.4.0", brokers=1, heap_mb=8)
    with pytest.raises(LabError, match=r"broker-1 of Kafka 4\.4\.0 ended with exit code \d+\. It logged:\n(.|\n)*heap"):
        cluster.start()
    assert cluster.pids == ()
    assert list(tmp_path.iterdir()) == []


def test_delayed_brokers_are_as_far_away_as_asked_and_stop_leaves_nothing() -> None:
    cluster = KafkaCluster(version="4.4.0", brokers=1, delay_ms=40).start()
    folder, bootstrap = cluster.folder, cluster.bootstrap
    with connect_any(bootstrap, timeout=10) as connection:
        connection.metadata()
        started = time.monotonic()
        connection.metadata()
        assert 0.08 <= time.monotonic() - started < 5
    cluster.stop()
    cluster.stop()
    assert cluster.pids == ()
    assert not folder.exists()
    assert not is_listening(int(bootstrap.rpartition(":")[2]))
    with pytest.raises(LabError, match="This cluster is not running"):
        _ = cluster.bootstrap


@pytest.mark.parametrize(("sign", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_the_command_line_leaves_nothing_behind(sign: signal.Signals, exit_code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lab", "up", "--version", "4.4.0", "--brokers", "1"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        found = re.search(r"bootstrap=127\.0\.0\.1:(\d+)$", said, re.MULTILINE)
        assert found, said
        process.send_signal(sign)
        assert process.wait(30) == exit_code
    until(lambda: not is_listening(int(found[1])))
    until(lambda: not list(tmp_path.glob("akg-lab-*")))
