import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConfigurationError,
    GroupsFailedError,
    RequestTimeoutError,
    SnapshotError,
)
from airflow_kafka_groups.kafka.maintenance_client import OffsetsRetention
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error


def execute(storage: Path | str, **arguments: Any) -> dict[str, Any]:
    operator = ListGroupOffsetsOperator(task_id="t", storage_path=str(storage), **arguments)
    return operator.execute({"run_id": "run 1"})


def manifest_of(summary: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(summary["manifest"]).read_text())
    return found


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a1", "a2", "b1")}


def test_a_snapshot_is_written_and_summed_up_in_plain_json(tmp_path: Path) -> None:
    summary = execute(tmp_path, cluster="prod")
    manifest = json.loads(Path(summary["manifest"]).read_text())
    assert Path(summary["manifest"]) == tmp_path / "prod" / "manifests" / f"{summary['snapshot_id']}.json"
    assert (manifest["groups"], manifest["airflow_run"]) == (3, "run 1")
    assert (summary["groups"], summary["failed_groups"], summary["states"]) == (3, 0, {"Empty": 3})
    assert json.loads(json.dumps(summary)) == summary, "anything else cannot be read back from XCom"


def test_the_folder_of_the_cluster_is_named_after_the_connection_by_default(tmp_path: Path) -> None:
    assert execute(f"file://{tmp_path}")["cluster"] == "kafka_groups_default"
    assert (tmp_path / "kafka_groups_default" / "manifests").is_dir()


def test_groups_are_chosen_by_patterns_or_by_name(tmp_path: Path) -> None:
    assert execute(tmp_path, include=["a*"], exclude=["*2"])["groups"] == 1
    assert execute(tmp_path, group_ids=["a1", "b1", "a1"])["groups"] == 2


def test_a_group_that_cannot_be_read_is_in_the_snapshot_unless_told_to_fail(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.errors["a1"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    summary = execute(tmp_path)
    assert summary["failed_groups"] == 1
    assert "GROUP_AUTHORIZATION_FAILED" in summary["failed"]["a1"]
    with pytest.raises(GroupsFailedError, match="a1"):
        execute(tmp_path, fail_on_error=True)


def test_all_groups_that_cannot_be_read_are_counted(admin: FakeAdmin, tmp_path: Path) -> None:
    """The summary names the first hundred of them."""
    admin.groups = {f"g{number}": FakeGroup() for number in range(150)}
    admin.errors |= {f"g{number}": broker_error("GROUP_AUTHORIZATION_FAILED") for number in range(120)}
    with pytest.raises(GroupsFailedError, match=r"^120 of 150 failed: .*; and 117 more$"):
        execute(tmp_path, fail_on_error=True)


def test_an_incomplete_listing_fails_the_task_unless_told_otherwise(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    with pytest.raises(SnapshotError, match="broker 2: no answer"):
        execute(tmp_path)
    assert execute(tmp_path, require_complete=False)["complete"] is False


def test_a_named_group_that_does_not_exist_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"group_ids.*typo.*do not exist"):
        execute(tmp_path, group_ids=["a1", "typo"])


DENIED = BrokerError(31, "CLUSTER_AUTHORIZATION_FAILED", "no", api="DescribeConfigs", broker_id=2)


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (OffsetsRetention(by_broker={1: 10_080, 2: 60}, errors={}), 60),
        (OffsetsRetention(by_broker={1: 10_080}, errors={2: DENIED}), None),
        (DENIED, None),
    ],
)
def test_the_manifest_has_the_offsets_retention_if_every_broker_tells(
    admin: FakeAdmin, tmp_path: Path, retention: OffsetsRetention | BrokerError, expected: int | None
) -> None:
    admin.retention = retention
    assert manifest_of(execute(tmp_path))["offsets_retention_minutes"] == expected


def test_a_snapshot_of_named_groups_asks_for_no_retention(admin: FakeAdmin, tmp_path: Path) -> None:
    assert manifest_of(execute(tmp_path, group_ids=["a1"]))["offsets_retention_minutes"] is None
