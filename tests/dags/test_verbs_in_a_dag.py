"""The verbs that change groups, by their operators in a DAG on brokers old and new, killed after each change."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import each_of
from tests.integration.test_shell_verbs import LONG, Shell, static_member
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics, produce

kafka = each_of("kafka44", "kafka28")
TOPIC = "verbs-in-a-dag"


@pytest.mark.airflow
@pytest.mark.safety
def test_a_dag_that_is_killed_after_each_change_makes_none_twice(kafka: KafkaCluster, tmp_path: Path) -> None:
    create_topics(kafka.bootstrap, {TOPIC: 2})
    produce(kafka.bootstrap, {(TOPIC, 0): 20, (TOPIC, 1): 20})
    shell = Shell(tmp_path, kafka, TOPIC)
    a, b, c = shell.group("a", 5, 7), shell.group("b", 3, 3), shell.group("c", 4, 4)
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "plan.csv").write_text(f"{b},{TOPIC},0,9\n{b},{TOPIC},1,99\n")
    environment = {
        **os.environ,
        "AIRFLOW_CONN_LAB": json.dumps({"conn_type": "kafka_groups", "host": kafka.bootstrap}),
        "VERBS_STORAGE": str(storage),
        "VERBS_GROUP": shell.prefix,
        "VERBS_TOPIC": TOPIC,
    }

    def run(*killed_after: str) -> None:
        program = [sys.executable, "-m", "tests.dags.verbs_in_a_dag", *killed_after]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == (-signal.SIGKILL if killed_after else 0), (done.stdout + done.stderr)[-3000:]

    with static_member(shell, f"{shell.prefix}.static", "pod-1", **LONG):
        pass
    run("remove_members_from_consumer_group")
    with static_member(shell, f"{shell.prefix}.static", "pod-1", **LONG):  # it is back
        there = shell("describe", f"{shell.prefix}.static")
        run("alter_consumer_group_offsets")
        assert shell.offsets(a) == [7, 9]
        run("delete_consumer_group_offsets")
        assert [shell.offsets(group_id) for group_id in (a, b, c)] == [[7, 9], [9, 20], []]
        run()
        run()
        assert [shell.offsets(group_id) for group_id in (a, b, c)] == [[7, 9], [9, 20], []]
        assert shell("describe", f"{shell.prefix}.static") == there
