"""No argument of an operator, and so no run's configuration, undercuts the site's floors."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    KeepOffsetsAliveOperator,
    MigrateGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import Planned, Site

pytestmark = pytest.mark.safety

DAY = 86_400


def ask(storage: Path, planned: dict[str, Any], **arguments: Any) -> str | None:
    """Return why somebody has to be asked."""
    task = ApproveCleanupOperator(**scene.of_plan(storage, planned, "approve"), **arguments)
    _, plan, terms = task._plan_to_approve()
    return terms.why(len(plan.groups))


def test_a_plan_with_a_weaker_policy_is_made_within_them_and_says_so(site: Site, planned: Planned) -> None:
    assert planned["counts"]["planned"] == 2
    site.configure(min_idle_seconds=(scene.DAYS + 1) * DAY)
    site.connect(floors={"max_groups": 1})
    again = site.plan(snapshot_id=planned["snapshot_id"], min_idle_seconds=1, max_groups=500, max_share=1)
    assert again["counts"]["planned"] == 0
    policy = json.loads(Path(again["plan_path"]).read_text())["policy"]
    assert (policy["min_idle_seconds"], policy["max_groups"]) == ((scene.DAYS + 1) * DAY, 1)
    assert [name in " ".join(again["warnings"]) for name in ("min_idle_seconds", "max_groups")] == [True, True]


def test_a_plan_that_was_made_before_they_were_raised_is_not_carried_out(site: Site, backed_up: Planned) -> None:
    site.configure(min_idle_seconds=(scene.DAYS + 1) * DAY)
    with pytest.raises(PlanError, match="undercuts what the site demands"):
        site.apply(backed_up)
    assert site.admin.deleted == []


@pytest.mark.parametrize("where", ["configuration", "connection"])
@pytest.mark.promise(9)
def test_the_question_cannot_be_switched_off(site: Site, backed_up: Planned, where: str) -> None:
    assert ask(site.storage, backed_up, approval_rule="never") is None
    site.limit(where, approve_above=1)
    assert ask(site.storage, backed_up, approval_rule="never") is not None
    with pytest.raises(PlanError, match="nobody was asked"):
        site.apply(backed_up, approval_rule="never")
    assert site.admin.deleted == []


def test_groups_are_not_deleted_by_name_instead(site: Site, planned: Planned) -> None:
    site.configure(min_idle_seconds=DAY)
    with pytest.raises(PlanError, match="named_deletions"):
        site.delete(group_ids=["a"])
    assert site.admin.deleted == []


@pytest.mark.promise(9)
def test_another_storage_with_another_journal_and_other_approvals_is_refused(site: Site, backed_up: Planned) -> None:
    site.configure(storage_path="/srv/groups")
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        site.plan(snapshot_id=backed_up["snapshot_id"])
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        ask(site.storage, backed_up)
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        site.apply(backed_up)
    assert site.admin.deleted == []


def test_a_misspelled_floor_deletes_nothing(site: Site, backed_up: Planned) -> None:
    site.configure(dry_runs_only=True)
    with pytest.raises(ConfigurationError, match="dry_runs_only"):
        site.apply(backed_up)
    assert site.admin.deleted == []


def test_a_plan_says_that_floors_without_a_storage_are_weak(site: Site, planned: Planned) -> None:
    site.patch.delenv("KAFKA_GROUPS_DEFAULTS", raising=False)
    site.configure(approve_above=5)
    assert "Set the floor storage_path" in " ".join(site.plan(snapshot_id=planned["snapshot_id"])["warnings"])


def test_another_storage_does_not_evade_a_floor(site: Site, backed_up: Planned) -> None:
    site.defaults({"storage_path": "/the/sites/own"})
    site.configure(max_groups=500)
    with pytest.raises(ConfigurationError, match="/the/sites/own"):
        site.apply(backed_up)
    assert site.admin.deleted == []


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (RestoreGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "overwrite": True}),
        (ResetGroupOffsetsOperator, {"group_ids": ["a"], "to": "earliest"}),
        (AlterGroupOffsetsOperator, {"offsets": {"a": {"t": {"0": 1}}}}),
        (CopyGroupOffsetsOperator, {"groups": {"a": "b"}}),
        (MigrateGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64}),
        (BackupGroupOffsetsOperator, {"group_ids": ["a"]}),
        (BackupGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64}),
        (KeepOffsetsAliveOperator, {"group_ids": ["a"]}),
        (DeleteGroupOffsetsOperator, {"group_ids": ["a"], "topics": ["t"]}),
        (RestoreDrillOperator, {"plan_id": "20261122T081500Z-1a2b3c4d"}),
        (NotifyOwnersOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64, "notifiers": ()}),
    ],
)
@pytest.mark.parametrize("where", ["configuration", "connection"])
def test_another_storage_is_refused_by_every_task_that_changes_something(
    site: Site, operator: Any, arguments: dict[str, Any], where: str
) -> None:
    """Who may trigger a run may write to a storage of theirs: a forged backup in it would be restored."""
    site.admin.groups = {"a": FakeGroup()}
    site.limit(where, storage_path="/the/site's")
    task = operator(task_id="t", **site.stored, **arguments)
    with pytest.raises(ConfigurationError, match=r"storage_path .*the site keeps plans, backups"):
        task.execute({})
    assert list(site.storage.iterdir()) == []
    assert site.admin.calls == []
