"""Explaining one group: every guard that keeps it has a row, and what would change it."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change import explain
from airflow_kafka_groups.cli.commands.look import EXPLAIN_COLUMNS
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID, TopicPartition
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene


def of(found: dict[str, Any], check: str) -> list[dict[str, str]]:
    return [row for row in found["checks"] if row["check"] == check]


def test_a_group_that_would_be_deleted(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    code, found, _ = stored("explain", "a")
    assert (code, found["would_be_deleted"], found["kept_by"]) == (0, True, [])
    assert found["plan_id"] == backed_up["plan_id"]
    assert [tuple(row) for row in found["checks"]] == [EXPLAIN_COLUMNS] * len(found["checks"])
    assert "stale" in of(found, "verdict")[0]["evidence"]
    assert of(found, "recheck")[0]["finding"] == "deletes"


def test_who_used_the_group_last(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    assert of(stored("explain", "a")[1], "last members")[0]["evidence"] == "none in any snapshot"
    admin.groups["a"].members = 2
    scene.take_snapshot(tmp_path)
    admin.groups["a"].members = 0
    (row,) = of(stored("explain", "a")[1], "last members")
    assert row["finding"] == "info"
    assert row["evidence"].endswith(" UTC: 2 member(s), c at 127.0.0.1; topics t")


def test_a_plan_without_a_backup_keeps_it(admin: FakeAdmin, planned: dict[str, Any], stored: Cli) -> None:
    _, found, _ = stored("explain", "a")
    assert (found["would_be_deleted"], found["kept_by"]) == (False, ["recheck"])
    assert of(found, "recheck")[0]["what_would_change_it"] == "back the plan up"


@pytest.mark.parametrize(
    ("group_id", "kept_by", "evidence", "remedy"),
    [
        ("live", "plan", "kept (live)", "stop its consumers"),
        ("nobody", "plan", "does not name it", ""),
        ("a", "recheck", "changed since it was judged", ""),
    ],
)
def test_what_keeps_a_group(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, group_id: str, kept_by: str, evidence: str, remedy: str
) -> None:
    admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 9})
    _, found, _ = stored("explain", group_id)
    assert (found["would_be_deleted"], found["kept_by"]) == (False, [kept_by])
    (row,) = of(found, kept_by)
    assert (evidence in row["evidence"], remedy in row["what_would_change_it"]) == (True, True), row


def test_a_group_of_which_offsets_are_no_longer_seen(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    admin.groups["a"].offsets.clear()
    admin.ends[TopicPartition("t", 0)] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    _, found, _ = stored("explain", "a")
    (recheck,) = [row for row in found["checks"] if row["check"] == "recheck"]
    assert recheck["finding"] == "keeps"
    assert recheck["evidence"].startswith("its offsets in 1 topic(s) are no longer seen: 't' (it does not exist")


def test_without_a_plan(admin: FakeAdmin, stored: Cli) -> None:
    admin.groups = {"a": FakeGroup()}
    _, found, _ = stored("explain", "a")
    assert (found["plan_id"], found["kept_by"]) == (None, ["plan"])
    assert "no snapshot" in of(found, "verdict")[0]["evidence"]


def test_between_two_clean_ups_the_verdict_is_that_of_the_newest_judged_snapshot(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    """Snapshots are taken each hour and judged once a day; ``plan`` takes the newest that is judged, too."""
    (before,) = of(stored("explain", "a")[1], "verdict")
    judged = before["evidence"].partition("stale in snapshot ")[2].partition(":")[0]
    newer = next(taken for _ in range(100) if (taken := scene.take_snapshot(tmp_path)) > judged)
    (row,) = of(stored("explain", "a")[1], "verdict")
    assert f"stale in snapshot {judged}: " in row["evidence"]
    assert row["evidence"].endswith(f"; the newest snapshot, {newer}, is not judged")
    assert row["what_would_change_it"] == before["what_would_change_it"]
    (row,) = of(stored("explain", "nobody")[1], "verdict")
    assert row["evidence"] == f"it is not in snapshot {judged}; the newest snapshot, {newer}, is not judged"


def test_the_page_names_the_exit_code_of_a_group_that_does_not_exist(backed_up: dict[str, Any], stored: Cli) -> None:
    """It is 3 for other commands. What is known of a group that was deleted is complete."""
    page = (Path(__file__).parents[5] / "docs/howto/command-line.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("| 3 |"))
    assert f"`explain`: {int(stored('explain', 'nobody')[0])}" in row


def test_what_was_deleted_and_came_back_is_kept_by_the_journal(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli
) -> None:
    assert stored("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes")[0] == 0
    _, found, _ = stored("explain", "a")
    assert found["kept_by"] == ["recheck", "journal"]
    assert of(found, "recheck")[0]["evidence"] == "it does not exist any more"
    admin.groups["a"] = FakeGroup()
    _, found, _ = stored("explain", "a")
    assert found["kept_by"] == ["journal"]
    assert any(": deleted:" in row["evidence"] for row in of(found, "journal"))
    assert any("/_journal/" in row["evidence"] for row in of(found, "journal"))


def test_the_site_and_the_connection_keep_it(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__DRY_RUN_ONLY", "True")
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__APPROVE_ABOVE", "0")
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__STORAGE_PATH", str(tmp_path))
    connection = '{"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"protected_groups": ["a"]}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", connection)
    _, found, _ = stored("explain", "a")
    assert found["kept_by"] == ["connection", "site", "approval"]
    assert any("need an approval" in row["evidence"] for row in of(found, "site"))


def test_explain_and_apply_agree_on_every_group(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 9})
    would = {group_id: stored("explain", group_id)[1]["would_be_deleted"] for group_id in ("a", "b")}
    _, found, _ = stored("apply", backed_up["plan_id"])
    assert would == {item["group_id"]: item["outcome"] == "would_delete" for item in found["outcomes"]}


def test_another_plan_may_be_asked_for(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    newer = scene.plan(tmp_path, max_share=1, exclude=["a"])
    assert stored("explain", "a")[1]["plan_id"] == max(newer["plan_id"], backed_up["plan_id"])
    _, found, _ = stored("explain", "a", "--plan-id", newer["plan_id"])
    assert "excluded" in of(found, "plan")[0]["evidence"]


def test_no_pattern_releases_a_group_of_the_lease() -> None:
    for group_id, remedy in (
        (f"eu{LEASE_GROUP_ID}", "nothing: groups of the lease"),
        ("connect-x", "take its pattern"),
    ):
        group = KeptGroup(group_id=group_id, verdict="protected", reason="protected by a pattern")
        assert explain._row_of_plan("a plan", group).change.startswith(remedy)


def test_every_verdict_has_its_remedy() -> None:
    assert set(explain._BY_VERDICT) == set(VerdictName)
    assert set(explain._BY_PLAN) == set(KeptName)


POLICY = """\
version: 1
owners: {team: {groups: "[ab]", contact: team@example.com}}
limits: {max_share: 1}
rules:
  - {name: kept, match: {groups: "never"}, action: keep}
  - {name: rest, action: delete, idle: 1d}
"""


def test_the_rule_that_decided_and_what_would_change_it(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    code, made, _ = stored("plan", "--policy-file", str(policy), "--max-share", "1")
    assert (code, made["counts"]["planned"] > 0) == (0, True)
    plan = ("--plan-id", made["plan_id"])  # the fixture's plan may be of the same second
    _, found, _ = stored("explain", "a", *plan)
    (row,) = of(found, "policy")
    assert (row["finding"], row["evidence"].startswith(f"rule 'rest' of {policy} decided: delete; idle for")) == (
        "info",
        True,
    )
    assert row["what_would_change_it"].startswith("a rule before it (kept) that matches")
    assert of(found, "owner")[0]["evidence"] == "team, contact team@example.com"
    policy.write_text(POLICY.replace('"never"', "a"))
    assert "policy" in stored("explain", "a", *plan)[1]["kept_by"]
    policy.write_text(POLICY.replace("rules:", "rulez:"))
    kept = [row for row in of(stored("explain", "a", *plan)[1], "policy") if row["finding"] == "keeps"]
    assert "did you mean 'rules'" in kept[0]["evidence"]


def test_a_group_whose_owner_has_to_be_notified(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("idle: 1d", "idle: 1d, notice: 3d"))
    made = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert made["counts"]["notice"] > 0
    (row,) = of(stored("explain", "a", "--plan-id", made["plan_id"])[1], "plan")
    assert "its owner has not been notified" in row["evidence"]
    assert "notice to its owner" in row["what_would_change_it"]


def test_of_thousands_of_rules_before_the_one_that_decided_the_first_are_named(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    before = "".join(f"  - {{name: r{n}, match: {{groups: x{n}-y}}, action: keep}}\n" for n in range(50))
    policy.write_text(POLICY.replace("rules:\n", f"rules:\n{before}"))
    _, made, said = stored("plan", "--policy-file", str(policy), "--max-share", "1")
    assert made is not None, said
    (row,) = of(stored("explain", "a", "--plan-id", made["plan_id"])[1], "policy")
    assert row["what_would_change_it"].startswith(
        "a rule before it (r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, and 41 more)"
    )
