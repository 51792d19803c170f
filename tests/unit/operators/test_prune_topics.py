"""The operators that prune topics: plan, dry run by default, deletion, undo, and when they fail."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, LeaseNotAcquiredError, PlanError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from airflow_kafka_groups.operators.pruning import PlanTopicPruningOperator, PruneTopicOffsetsOperator
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error
from tests.fakes.lease import FakeLease
from tests.unit.change.prune_topics.scene import HOUR, cluster, snapshots
from tests.unit.operators import scene

OLD = {TopicPartition("old", 0), TopicPartition("old", 1)}


@pytest.fixture(autouse=True)
def abandoned(admin: FakeAdmin, tmp_path: Path) -> None:
    """A group that has not read ``old`` for three hours, and the snapshots that show it."""
    made = cluster()
    admin.log, admin.groups = made.log, made.groups
    asyncio.run(snapshots(admin, Layout(tmp_path, scene.CLUSTER), 4, first=utc_now() - 3.01 * HOUR))


def plan(storage: Path, **how: Any) -> dict[str, Any]:
    return scene.run(PlanTopicPruningOperator, storage, **{"min_idle_seconds": "7200", "max_share": 1, **how})


def prune(storage: Path, made: dict[str, Any], **how: Any) -> dict[str, Any]:
    return scene.run(PruneTopicOffsetsOperator, storage, **{**scene.of_plan(storage, made), "dry_run": False, **how})


def committed(admin: FakeAdmin) -> set[TopicPartition]:
    return {where for where in admin.groups["app"].offsets if where.topic == "old"}


def test_a_plan_is_applied_and_undone(admin: FakeAdmin, tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert (made["counts"]["planned"], made["counts"]["planned_partitions"]) == (1, 2)
    assert made["first_topics"][0]["topic"] == "old"
    dry = PruneTopicOffsetsOperator(**scene.of_plan(tmp_path, made, "d")).execute({})
    assert (dry["dry_run"], dry["counts"]["would_delete"], dry["partitions"], committed(admin)) == (True, 1, 2, OLD)

    done = prune(tmp_path, made)
    assert (done["counts"]["deleted"], done["partitions"], committed(admin)) == (1, 2, set())
    assert done["verification"] == {"gone": 1, "present": 0, "unclear": 0}
    assert Path(done["audit_path"]).exists()
    again = prune(tmp_path, made)
    assert (again["counts"]["gone"], again["partitions"]) == (1, 0)

    admin.groups["app"].members = 0
    restored = scene.run(RestoreGroupOffsetsOperator, tmp_path, plan_id=made["plan_id"], dry_run=False)
    assert restored["counts"]["changed"] == 1
    assert committed(admin) == OLD


def test_a_policy_file_selects_the_groups(admin: FakeAdmin, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nlimits: {max_share: 1.0}\nrules: [{name: p, action: prune-topics, idle: 2h}]\n")
    made = plan(tmp_path, policy_file=str(path))
    assert made["counts"]["planned"] == 1
    path.write_text("version: 1\nrules: [{name: p, action: keep}]\n")
    kept = prune(tmp_path, made)
    assert kept["kept"].keys() == {"app [old]"}
    assert (kept["kept_reasons"], committed(admin)) == ({"policy": 1}, OLD)


def test_a_topic_that_could_not_be_pruned_fails_the_task(admin: FakeAdmin, tmp_path: Path) -> None:
    made = plan(tmp_path)
    admin.forget_errors["app"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(GroupsFailedError, match="GROUP_AUTHORIZATION_FAILED"):
        prune(tmp_path, made)


def test_another_plan_and_what_is_no_digest_are_refused(admin: FakeAdmin, tmp_path: Path) -> None:
    made = plan(tmp_path)
    with pytest.raises(PlanError, match="digest differs"):
        prune(tmp_path, {**made, "digest": "0" * 64})
    with pytest.raises(ConfigurationError, match="plan_digest"):
        prune(tmp_path, {**made, "digest": "x"})
    assert committed(admin) == OLD


def test_while_another_run_has_the_lease_the_task_is_skipped(
    admin: FakeAdmin, tmp_path: Path, leases: FakeLease
) -> None:
    made = plan(tmp_path)
    leases.refused = LeaseNotAcquiredError("g", "somebody")
    with pytest.raises(AirflowSkipException, match="Nothing was deleted"):
        prune(tmp_path, made)
    assert prune(tmp_path, made, dry_run=True)["counts"]["would_delete"] == 1, "a dry run needs none"
    assert committed(admin) == OLD


def test_limits_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = plan(tmp_path), list[DeletionLimits]()

    async def note(*given: Any, **_: Any) -> None:
        seen.append(given[-1].limits)
        raise LeaseNotAcquiredError("g", "somebody")

    monkeypatch.setattr("airflow_kafka_groups.change.deletion.run.delete_by_plan", note)
    with pytest.raises(AirflowSkipException):
        prune(tmp_path, made, topics_per_second="5")
    assert seen == [DeletionLimits(groups_per_second=5.0, chunk_size=100)]
