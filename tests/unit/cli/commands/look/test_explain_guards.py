"""``explain`` says what ``apply`` does: whatever would keep a planned group is named, once."""

import json
import time
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
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.cli.commands.look.test_explain import of
from tests.unit.operators import scene


def nothing(admin: FakeAdmin, stored: Cli, storage: Path) -> None:
    """Leave all as it is."""


def kept_alive(admin: FakeAdmin, stored: Cli, storage: Path) -> None:
    admin.groups["a"].protocol_type = "consumer"
    code, found, said = stored("keep-alive", "a", "--yes", "--allow-membership", "--observe-seconds", "0")
    assert code == 0, (found, said)


def seen_in_use_by_a_newer_snapshot(admin: FakeAdmin, stored: Cli, storage: Path) -> None:
    time.sleep(1.1)
    admin.groups["a"].members = 2
    scene.take_snapshot(storage)
    admin.groups["a"].members = 0


def of_a_stopped_folder(admin: FakeAdmin, stored: Cli, storage: Path) -> None:
    (storage / scene.CLUSTER / "STOP").write_text("on holiday\n")


def deleted_by_another_request(admin: FakeAdmin, stored: Cli, storage: Path) -> None:
    """Its idle time restarts with that deletion, so this plan keeps it."""
    scene.delete(storage, group_ids=["a"], dry_run=False)
    admin.groups["a"] = FakeGroup()


KEEPING = [kept_alive, seen_in_use_by_a_newer_snapshot, of_a_stopped_folder, deleted_by_another_request]


@pytest.mark.parametrize("happens", [nothing, *KEEPING])
def test_what_happens_after_the_plan(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path, happens: Any
) -> None:
    happens(admin, stored, tmp_path)
    plan_id, digest = backed_up["plan_id"], backed_up["digest"]
    _, found, _ = stored("explain", "a", "--plan-id", plan_id)
    _, done, said = stored("apply", plan_id, "--digest", digest, "--yes")
    assert done is not None, said
    made = {item["group_id"]: item["outcome"] for item in done["outcomes"]}["a"]
    assert (found["would_be_deleted"], made) == ((False, "kept") if happens in KEEPING else (True, "deleted"))


def test_no_pattern_is_to_be_edited_for_a_group_that_is_kept_alive(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    """A new plan excludes it by the record of the run. Whoever follows the remedy must not loosen a pattern for it."""
    assert stored("keep-alive", "a", "--yes", "--allow-membership", "--observe-seconds", "0")[0] == 0
    newer = scene.plan(tmp_path, max_share=1)
    _, found, _ = stored("explain", "a", "--plan-id", newer["plan_id"])
    (row,) = [row for row in found["checks"] if row["check"] == "plan"]
    assert row["evidence"].startswith("kept (excluded): a keep-alive run")
    assert row["what_would_change_it"] == "time, and then a new plan"


def test_explain_looks_at_the_newest_plan_of_a_clean_up(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    time.sleep(1.1)
    scene.delete(tmp_path, group_ids=["b"], dry_run=False)
    _, found, _ = stored("explain", "a")
    _, done, _ = stored("apply", backed_up["plan_id"])
    would = {item["group_id"]: item["outcome"] for item in done["outcomes"]}
    assert would["a"] == "would_delete"
    assert (found["plan_id"], found["would_be_deleted"]) == (backed_up["plan_id"], True)


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
    ask(tmp_path, backed_up["plan_id"], answer=None)
    assert kept(stored, backed_up) == ["approval"], "not answered"
    ask(tmp_path, backed_up["plan_id"], answer=True, excluded=["a"])
    assert stored("explain", "b", "--plan-id", backed_up["plan_id"])[1]["would_be_deleted"]
    assert kept(stored, backed_up) == ["approval"]


def test_a_plan_that_was_rejected(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    ask(tmp_path, backed_up["plan_id"], answer=False)
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


POLICY = "version: 1\nlimits: {max_share: 1}\nrules: [{name: rest, action: delete, idle: 1d}]\n"


def by_policy(stored: Cli, policy: Path) -> dict[str, Any]:
    """Plan and back up by a policy file; return the plan."""
    policy.write_text(POLICY)
    made: dict[str, Any] = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert stored("backup", "--plan-id", made["plan_id"], "--digest", made["digest"])[0] == 0
    return made


def test_a_policy_that_is_not_for_this_cluster_any_more(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    made = by_policy(stored, policy := tmp_path / "policy.yaml")
    policy.write_text(POLICY + "clusters: {other: {connection: other}}\n")
    assert kept(stored, made) == ["policy"]


def test_an_edited_idle_time_that_what_is_on_record_does_not_reach(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    at, journal, policy = utc_now() - timedelta(days=2), Journal(tmp_path, CLUSTER_ID), tmp_path / "policy.yaml"
    run = journal.begin({"run_id": new_id(at), "request_id": "another"}, at, after=journal.read())
    run.intend({"a": "its fingerprint"}, at)
    run.end([GroupOutcome(group_id="a", outcome=Outcome.DELETED, code="safe", reason="deleted")], {}, at)
    made = by_policy(stored, policy)
    assert stored("explain", "a", "--plan-id", made["plan_id"])[1]["would_be_deleted"]
    policy.write_text(POLICY.replace("1d", "3d"))
    assert kept(stored, made) == ["journal"]


@pytest.mark.parametrize("which", ["a user who does not see all topics", "a clone with the same id"])
def test_another_view_of_the_cluster(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, which: str) -> None:
    if "user" in which:
        admin.sees_topics = False
    else:
        admin.hosts = {8: "b8", 9: "b9"}
    assert kept(stored, backed_up) == ["plan"]


def test_a_clock_that_is_behind_the_plan(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["would_be_deleted"]
    earlier = utc_now() - timedelta(hours=1)
    monkeypatch.setattr("airflow_kafka_groups.change.explain.utc_now", lambda: earlier)
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["kept_by"] == ["plan"]


def test_the_variable_that_stops_deletions(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "no")
    assert stored("explain", "a")[1]["would_be_deleted"]
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "maybe")
    assert kept(stored, backed_up) == ["stop"]
    _, found, _ = stored("explain", "a")
    assert "kafka_groups_stop" in of(found, "stop")[0]["evidence"]


def test_a_plan_with_another_group_that_the_connection_protects_by_now(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is refused as it stands: none of its groups is deleted."""
    connection = '{"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"protected_groups": ["b"]}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", connection)
    assert kept(stored, backed_up, "a") == ["connection"]
    _, found, _ = stored("explain", "a")
    assert "'b'" in of(found, "connection")[-1]["evidence"]
    assert stored("explain", "b")[1]["kept_by"] == ["connection"], "once"


def test_a_plan_of_groups_that_were_named(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    done = scene.delete(tmp_path, group_ids=["b"], dry_run=False)
    assert kept(stored, {"plan_id": done["plan_id"], "digest": done["plan_digest"]}, "b")[0] == "plan"


def test_a_backup_of_another_plan(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    manifest = tmp_path / scene.CLUSTER / "backups" / f"{backed_up['plan_id']}.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "plan_digest": "0" * 64}))
    assert kept(stored, backed_up) == ["recheck"]
