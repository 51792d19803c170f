"""A broker that is frozen (SIGSTOP) and stays in the cluster: commands wait for it once, and print what they have."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_groups.cli.main import main
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

API_TIMEOUT = 10
"""Each command made four to six calls that waited so long."""


@pytest.fixture(scope="module")
def frozen() -> Iterator[KafkaCluster]:
    """Return a cluster that goes on to believe that its third broker is there."""
    with KafkaCluster(version="4.1.0", brokers=3, config={"broker.session.timeout.ms": "900000"}) as cluster:
        create_topics(cluster.bootstrap, {"orders": 6})
        seed_groups(cluster.bootstrap, [f"g{n}" for n in range(40)], {("orders", n): 0 for n in range(6)})
        os.kill(cluster.pid(3), signal.SIGSTOP)
        try:
            yield cluster
        finally:
            os.kill(cluster.pid(3), signal.SIGCONT)


@pytest.mark.parametrize("command", ["list", "lag", "snapshot", "doctor"])
def test_a_command_waits_once_for_a_frozen_broker_and_prints_what_it_has(
    command: str, frozen: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        f"bootstrap.servers={frozen.bootstrap}\n"
        f"default.api.timeout.ms={API_TIMEOUT * 1000}\nsocket.timeout.ms={API_TIMEOUT * 500}\n"
    )
    stored = ["--storage-path", str(tmp_path / "kept"), "--cluster", "c"] if command in ("snapshot", "doctor") else []
    began = time.monotonic()
    code = main([command, "--config", str(config), *stored, "-o", "json"])
    took = time.monotonic() - began
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert code == (1 if command == "doctor" else 3)
    assert "groups may be missing: 3" in err or command == "doctor"
    assert took < 2 * API_TIMEOUT
