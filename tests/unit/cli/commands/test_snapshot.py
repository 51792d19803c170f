"""The command snapshot: what the operator writes, without Airflow."""

import json
from pathlib import Path

import pytest

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 5}), "b": FakeGroup({TopicPartition("t", 1): 10})}


def test_a_snapshot_is_written_that_jobs_and_plans_read(stored: Cli, tmp_path: Path) -> None:
    code, _, _ = stored("snapshot")
    manifest = latest_manifest(Layout(tmp_path, CLUSTER))
    assert (code, manifest.groups, manifest.complete) == (0, 2, True)
    assert manifest.airflow_run.startswith("airflow-kafka-groups snapshot, ")
    reader = SnapshotReader(Layout(tmp_path, CLUSTER), manifest.snapshot_id)
    assert [group.group_id for group in reader.summaries()] == ["a", "b"]
    assert stored("snapshot", "--exclude", "b")[0] == 0
    both = [json.loads(path.read_text())["groups"] for path in (tmp_path / CLUSTER / "manifests").iterdir()]
    assert sorted(both) == [1, 2]


def test_what_is_missing_is_named_and_is_exit_code_3(stored: Cli, admin: FakeAdmin) -> None:
    admin.missing_brokers = {2: broker_error("COORDINATOR_LOAD_IN_PROGRESS")}
    code, _, said = stored("snapshot")
    assert (code, "groups may be missing: 2" in said) == (3, True)
    admin.missing_brokers = {}
    admin.offset_errors = {"a": broker_error("GROUP_AUTHORIZATION_FAILED")}
    code, found, said = stored("snapshot")
    assert (code, [row["group_id"] for row in found["failed"]], "1 group(s) could not be read" in said) == (
        3,
        ["a"],
        True,
    )
