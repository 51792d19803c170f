"""Whatever is in doubt is kept, the record is always written, and bad input deletes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    OutcomeUnknownError,
    PlanError,
)
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.records import records
from tests.unit.operators.scene import Planned, Site


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


# By plan


def test_planned_groups_are_deleted_verified_and_recorded(site: Site, backed_up: Planned) -> None:
    done = site.apply(backed_up)
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert done["counts"]["deleted"] == 2
    assert done["verification"] == {"gone": 2, "present": 0, "unclear": 0}
    (record,) = records(site.storage)
    assert Path(done["audit_path"]).is_file()
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "deleted", "b": "deleted"}
    assert json.loads(json.dumps(done)) == done
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({})


@pytest.mark.parametrize("dry_run", [True, "True", "true"])
def test_a_dry_run_deletes_nothing_and_says_what_it_would(site: Site, backed_up: Planned, dry_run: Any) -> None:
    done = site.apply(backed_up, dry_run=dry_run)
    assert site.admin.deleted == []
    assert done["counts"]["would_delete"] == 2
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({}), "nothing to wait for"


def test_a_plan_that_is_not_the_approved_one_is_refused(site: Site, backed_up: Planned) -> None:
    with pytest.raises(PlanError, match="not the one that was asked for"):
        site.apply({**backed_up, "digest": "0" * 64})
    assert site.admin.deleted == []


def test_a_read_only_connection_refuses_all_but_a_dry_run(site: Site, backed_up: Planned) -> None:
    site.connect(read_only=True)
    with pytest.raises(ConfigurationError, match="read-only"):
        site.apply(backed_up)
    with pytest.raises(ConfigurationError, match="read-only"):
        site.delete(group_ids=["a"])
    assert site.admin.deleted == []
    assert site.apply(backed_up, dry_run=True)["counts"]["would_delete"] == 2


def test_a_plan_that_names_a_group_protected_since_is_refused(site: Site, backed_up: Planned) -> None:
    site.connect(protected_groups=["a"])
    with pytest.raises(PlanError, match="protects"):
        site.apply(backed_up)
    assert site.admin.deleted == []


def test_a_group_that_fails_is_recorded_and_fails_the_task(site: Site, backed_up: Planned) -> None:
    site.admin.delete_errors = {"a": OutcomeUnknownError("the answer was lost")}
    with pytest.raises(GroupsFailedError, match="'a'"):
        site.apply(backed_up)
    (record,) = records(site.storage)
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "failed", "b": "deleted"}


# By name


def test_named_groups_are_watched_backed_up_and_deleted(site: Site) -> None:
    done = site.delete(group_ids='["a", "b"]')
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert Path(done["backup"]).is_file()
    assert records(site.storage)[0]["counts"]["deleted"] == 2


def test_a_named_group_that_is_kept_fails_the_task_unless_told_otherwise(site: Site) -> None:
    site.admin.groups["a"].members = 2
    with pytest.raises(GroupsFailedError, match="'a'"):
        site.delete(group_ids=["a"])
    assert list(site.delete(group_ids=["a"], fail_if_kept=False)["kept"]) == ["a"]
    assert site.admin.deleted == []


@pytest.mark.parametrize("group_id", ["connect-sink", "airflow-kafka-groups-lease"])
def test_a_platform_group_is_kept_even_when_named(site: Site, group_id: str) -> None:
    site.admin.groups[group_id] = FakeGroup()
    with pytest.raises(GroupsFailedError, match="protected"):
        site.delete(group_ids=[group_id])
    assert site.admin.deleted == []


def test_an_unknown_group_fails_the_task_before_anything_is_deleted(site: Site) -> None:
    with pytest.raises(ConfigurationError, match=r"group_ids.*typo.*nothing was deleted"):
        site.delete(group_ids=["a", "typo"])
    assert site.admin.deleted == []
    assert site.delete(group_ids=["a", "typo"], ignore_missing=True)["counts"]["deleted"] == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"group_ids": ["a", "a"]}, "group_ids"),
        ({"group_ids": ["a", ""]}, "group_ids"),
        ({"group_ids": ["a"], "observe_seconds": 0}, "observe_seconds"),
        ({"plan_id": "", "plan_digest": "0" * 64}, "plan_id"),
        ({"plan_id": "x", "plan_digest": "y"}, "plan_digest"),
        ({"plan_id": "../../x", "plan_digest": "0" * 64}, "plan_id"),
        *(({"group_ids": ["a"], "dry_run": unclear}, "dry_run") for unclear in ("", "no", "None", 1, None)),
        *(({"group_ids": ["a"], "approval_rule": unclear}, "approval_rule") for unclear in ("Never", "")),
        *(({"group_ids": ["a"], "approve_above": unclear}, "approve_above") for unclear in (-1, "some")),
        # Arguments that exclude each other.
        *(({}, "group_ids"), ({"group_ids": ["a"], "plan_id": "x", "plan_digest": "y"}, "group_ids")),
        *(({"plan_id": "x"}, "plan_digest"), ({"group_ids": [], "plan_digest": "y"}, "plan_digest")),
    ],
)
def test_bad_input_is_a_clear_error_and_deletes_nothing(site: Site, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        site.delete(**arguments)
    assert (site.admin.deleted, records(site.storage)) == ([], [])
