"""``explain`` knows the answers of people, the site's limits and the cluster: whatever makes ``apply`` keep a group."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.storage.layout import Layout, utc_now
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene


def ask(storage: Path, plan_id: str, *, answer: bool | None, excluded: list[str] | None = None) -> None:
    layout = Layout(storage, scene.CLUSTER)
    plan, task, at = load_plan(layout, plan_id), {"task": "approve"}, utc_now()
    seal_question(layout, plan, task, at)
    if answer is not None:
        seal_answer(
            layout,
            plan,
            asked_by=task,
            approved=answer,
            person={"id": "ada", "name": "ada"},
            responded_at=at.isoformat(),
            confirmed=len(plan.groups),
            excluded=excluded,
        )


def kept(stored: Cli, made: dict[str, Any], group_id: str = "a") -> list[str]:
    """Return what ``explain`` says keeps a group, of which ``apply`` then deletes nothing."""
    _, found, said = stored("explain", group_id, "--plan-id", made["plan_id"])
    assert found is not None, said
    _, done, _ = stored("apply", made["plan_id"], "--digest", made["digest"], "--yes")
    outcomes = {} if done is None else {item["group_id"]: item["outcome"] for item in done["outcomes"]}
    assert outcomes.get(group_id) != "deleted"
    names: list[str] = found["kept_by"]
    return names


def test_a_group_that_the_approver_kept(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    ask(tmp_path, backed_up["plan_id"], answer=True, excluded=["a"])
    assert stored("explain", "b", "--plan-id", backed_up["plan_id"])[1]["would_be_deleted"]
    assert kept(stored, backed_up) == ["approval"]


@pytest.mark.parametrize("answer", [None, False], ids=["not answered", "rejected"])
def test_a_plan_that_nobody_approved(
    answer: bool | None, admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    ask(tmp_path, backed_up["plan_id"], answer=answer)
    assert kept(stored, backed_up) == ["approval"]


@pytest.mark.parametrize(
    ("floor", "value", "check"),
    [("APPROVE_ABOVE", "1", "approval"), ("MIN_IDLE_SECONDS", "90d", "site"), ("MAX_GROUPS", "1", "site")],
)
def test_a_plan_that_the_site_does_not_allow_any_more(
    floor: str,
    value: str,
    check: str,
    admin: FakeAdmin,
    backed_up: dict[str, Any],
    stored: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"AIRFLOW__KAFKA_GROUPS__{floor}", value)
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__STORAGE_PATH", str(tmp_path))
    assert kept(stored, backed_up) == [check]


def test_a_policy_that_is_not_for_this_cluster_any_more(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    text = "version: 1\nlimits: {max_share: 1}\nrules: [{name: rest, action: delete, idle: 1d}]\n"
    policy.write_text(text)
    made = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert stored("backup", "--plan-id", made["plan_id"], "--digest", made["digest"])[0] == 0
    policy.write_text(text + "clusters: {other: {connection: other}}\n")
    assert kept(stored, made) == ["policy"]


def test_an_edited_idle_time_that_what_is_on_record_does_not_reach(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    at, journal, policy = utc_now() - timedelta(days=2), Journal(tmp_path, CLUSTER_ID), tmp_path / "policy.yaml"
    run = journal.begin({"run_id": new_id(at), "request_id": "another"}, at, after=journal.read())
    run.intend({"a": "its fingerprint"}, at)
    run.end([GroupOutcome(group_id="a", outcome=Outcome.DELETED, code="safe", reason="deleted")], {}, at)
    text = "version: 1\nlimits: {max_share: 1}\nrules: [{name: rest, action: delete, idle: 1d}]\n"
    policy.write_text(text)
    made = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert stored("backup", "--plan-id", made["plan_id"], "--digest", made["digest"])[0] == 0
    assert stored("explain", "a", "--plan-id", made["plan_id"])[1]["would_be_deleted"]
    policy.write_text(text.replace("1d", "3d"))
    assert kept(stored, made) == ["journal"]


def test_a_user_who_does_not_see_all_topics(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    admin.sees_topics = False
    assert kept(stored, backed_up) == ["plan"]


def test_a_clone_with_the_same_id(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    admin.hosts = {8: "b8", 9: "b9"}
    assert kept(stored, backed_up) == ["plan"]


def test_a_clock_that_is_behind_the_plan(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["would_be_deleted"]
    earlier = utc_now() - timedelta(hours=1)
    monkeypatch.setattr("airflow_kafka_groups.storage.layout.utc_now", lambda: earlier)
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["kept_by"] == ["plan"]
