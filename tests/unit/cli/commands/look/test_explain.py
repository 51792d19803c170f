"""Explaining one group: every guard that keeps it has a row, what would change it, and ``apply`` does as it says."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change import explain
from airflow_kafka_groups.cli.commands.look import EXPLAIN_COLUMNS
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID, TopicPartition
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.storage.layout import utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli, ask
from tests.unit.operators import scene
from tests.unit.operators.scene import Planned, Site


def of(found: dict[str, Any], check: str) -> list[dict[str, str]]:
    return [row for row in found["checks"] if row["check"] == check]


def test_a_group_that_would_be_deleted(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    code, found, _ = stored("explain", "a")
    assert (code, found["would_be_deleted"], found["kept_by"]) == (0, True, [])
    assert found["plan_id"] == backed_up["plan_id"]
    assert [tuple(row) for row in found["checks"]] == [EXPLAIN_COLUMNS] * len(found["checks"])
    assert "stale" in of(found, "verdict")[0]["evidence"]
    assert of(found, "recheck")[0]["finding"] == "deletes"


def test_who_used_the_group_last(site: Site, backed_up: Planned, stored: Cli) -> None:
    assert of(stored("explain", "a")[1], "last members")[0]["evidence"] == "none in any snapshot"
    site.admin.groups["a"].members = 2
    site.take_snapshot()
    site.admin.groups["a"].members = 0
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
    assert recheck["evidence"].startswith("its offsets in 1 topic(s) are no longer seen: 't': deleted")


def test_without_a_plan(admin: FakeAdmin, stored: Cli) -> None:
    admin.groups = {"a": FakeGroup()}
    _, found, _ = stored("explain", "a")
    assert (found["plan_id"], found["kept_by"]) == (None, ["plan"])
    assert "no snapshot" in of(found, "verdict")[0]["evidence"]


def test_between_two_clean_ups_the_verdict_is_that_of_the_newest_judged_snapshot(
    site: Site, backed_up: Planned, stored: Cli
) -> None:
    """Snapshots are taken each hour and judged once a day; ``plan`` takes the newest that is judged, too."""
    (before,) = of(stored("explain", "a")[1], "verdict")
    judged = before["evidence"].partition("stale in snapshot ")[2].partition(":")[0]
    newer = next(taken for _ in range(100) if (taken := site.take_snapshot()) > judged)
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


def test_the_site_and_the_connection_keep_it(site: Site, backed_up: Planned, stored: Cli) -> None:
    site.configure(dry_run_only="True")
    site.configure(approve_above="0")
    site.configure(storage_path=site.storage)
    site.connect(protected_groups=["a"])
    _, found, _ = stored("explain", "a")
    assert found["kept_by"] == ["connection", "site", "approval"]
    assert any("need an approval" in row["evidence"] for row in of(found, "site"))


def test_another_plan_may_be_asked_for(site: Site, backed_up: Planned, stored: Cli) -> None:
    newer = site.plan(max_share=1, exclude=["a"])
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


def test_the_rule_that_decided_and_what_would_change_it(site: Site, planned: Planned, stored: Cli) -> None:
    policy = site.storage / "policy.yaml"
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
    assert row["what_would_change_it"] == "an edit of it, or a rule before it that matches"
    assert of(found, "owner")[0]["evidence"] == "team, contact team@example.com"
    policy.write_text(POLICY.replace('"never"', "a"))
    assert "policy" in stored("explain", "a", *plan)[1]["kept_by"]
    policy.write_text(POLICY.replace("rules:", "rulez:"))
    kept = [row for row in of(stored("explain", "a", *plan)[1], "policy") if row["finding"] == "keeps"]
    assert "did you mean 'rules'" in kept[0]["evidence"]


def test_a_group_whose_owner_has_to_be_notified(site: Site, planned: Planned, stored: Cli) -> None:
    policy = site.storage / "policy.yaml"
    policy.write_text(POLICY.replace("idle: 1d", "idle: 1d, notice: 3d"))
    made = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert made["counts"]["notice"] > 0
    (row,) = of(stored("explain", "a", "--plan-id", made["plan_id"])[1], "plan")
    assert "its owner has not been notified" in row["evidence"]
    assert "notice to its owner" in row["what_would_change_it"]


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
def test_what_happens_after_the_plan(site: Site, backed_up: Planned, stored: Cli, happens: Any) -> None:
    happens(site.admin, stored, site.storage)
    plan_id, digest = backed_up["plan_id"], backed_up["digest"]
    _, found, _ = stored("explain", "a", "--plan-id", plan_id)
    _, done, said = stored("apply", plan_id, "--digest", digest, "--yes")
    assert done is not None, said
    made = {item["group_id"]: item["outcome"] for item in done["outcomes"]}["a"]
    assert (found["would_be_deleted"], made) == ((False, "kept") if happens in KEEPING else (True, "deleted"))


def test_no_pattern_is_to_be_edited_for_a_group_that_is_kept_alive(site: Site, backed_up: Planned, stored: Cli) -> None:
    """A new plan excludes it by the record of the run. Whoever follows the remedy must not loosen a pattern for it."""
    assert stored("keep-alive", "a", "--yes", "--allow-membership", "--observe-seconds", "0")[0] == 0
    newer = site.plan(max_share=1)
    _, found, _ = stored("explain", "a", "--plan-id", newer["plan_id"])
    (row,) = [row for row in found["checks"] if row["check"] == "plan"]
    assert row["evidence"].startswith("kept (excluded): a keep-alive run")
    assert row["what_would_change_it"] == "time, and then a new plan"


def test_explain_looks_at_the_newest_plan_of_a_clean_up(site: Site, backed_up: Planned, stored: Cli) -> None:
    time.sleep(1.1)
    site.delete(group_ids=["b"], dry_run=False)
    _, found, _ = stored("explain", "a")
    _, done, _ = stored("apply", backed_up["plan_id"])
    would = {item["group_id"]: item["outcome"] for item in done["outcomes"]}
    assert would["a"] == "would_delete"
    assert (found["plan_id"], found["would_be_deleted"]) == (backed_up["plan_id"], True)


def kept(stored: Cli, made: dict[str, Any], group_id: str = "a") -> list[str]:
    """Return what ``explain`` says keeps a group, of which ``apply`` then deletes nothing."""
    _, found, said = stored("explain", group_id, "--plan-id", made["plan_id"])
    assert found is not None, said
    _, done, _ = stored("apply", made["plan_id"], "--digest", made["digest"], "--yes")
    outcomes = {} if done is None else {item["group_id"]: item["outcome"] for item in done["outcomes"]}
    assert outcomes.get(group_id) != "deleted"
    names: list[str] = found["kept_by"]
    return names


def test_a_group_that_the_approver_kept(site: Site, backed_up: Planned, stored: Cli) -> None:
    ask(site.storage, backed_up["plan_id"], answer=None)
    assert kept(stored, backed_up) == ["approval"], "not answered"
    ask(site.storage, backed_up["plan_id"], answer=True, excluded=["a"])
    assert stored("explain", "b", "--plan-id", backed_up["plan_id"])[1]["would_be_deleted"]
    assert kept(stored, backed_up) == ["approval"]


def test_a_plan_that_was_rejected(site: Site, backed_up: Planned, stored: Cli) -> None:
    ask(site.storage, backed_up["plan_id"], answer=False)
    assert kept(stored, backed_up) == ["approval"]


@pytest.mark.parametrize(
    ("floor", "value", "check"),
    [("approve_above", "1", "approval"), ("min_idle_seconds", "90d", "site"), ("max_groups", "1", "site")],
)
def test_a_plan_that_the_site_does_not_allow_any_more(
    floor: str, value: str, check: str, site: Site, backed_up: Planned, stored: Cli
) -> None:
    site.configure(storage_path=site.storage, **{floor: value})
    assert kept(stored, backed_up) == [check]


def by_policy(stored: Cli, policy: Path) -> dict[str, Any]:
    """Plan and back up by a policy file; return the plan."""
    policy.write_text(POLICY)
    made: dict[str, Any] = stored("plan", "--policy-file", str(policy), "--max-share", "1")[1]
    assert stored("backup", "--plan-id", made["plan_id"], "--digest", made["digest"])[0] == 0
    return made


def test_a_policy_that_is_not_for_this_cluster_any_more(site: Site, planned: Planned, stored: Cli) -> None:
    made = by_policy(stored, policy := site.storage / "policy.yaml")
    policy.write_text(POLICY + "clusters: {other: {connection: other}}\n")
    assert kept(stored, made) == ["policy"]


@pytest.mark.parametrize("which", ["a user who does not see all topics", "a clone with the same id"])
def test_another_view_of_the_cluster(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, which: str) -> None:
    if "user" in which:
        admin.sees_topics = False
    else:
        admin.hosts = {8: "b8", 9: "b9"}
    assert kept(stored, backed_up) == ["plan"]


def test_a_clock_that_is_behind_the_plan(site: Site, backed_up: Planned, stored: Cli) -> None:
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["would_be_deleted"]
    earlier = utc_now() - timedelta(hours=1)
    site.patch.setattr("airflow_kafka_groups.change.explain.utc_now", lambda: earlier)
    _, found, _ = stored("explain", "a", "--plan-id", backed_up["plan_id"])
    assert found["kept_by"] == ["plan"]


def test_the_variable_that_stops_deletions(site: Site, backed_up: Planned, stored: Cli) -> None:
    site.patch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "no")
    assert stored("explain", "a")[1]["would_be_deleted"]
    site.patch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "maybe")
    assert kept(stored, backed_up) == ["stop"]
    _, found, _ = stored("explain", "a")
    assert "kafka_groups_stop" in of(found, "stop")[0]["evidence"]


def test_a_plan_with_another_group_that_the_connection_protects_by_now(
    site: Site, backed_up: Planned, stored: Cli
) -> None:
    """The plan is refused as it stands: none of its groups is deleted."""
    site.connect(protected_groups=["b"])
    assert kept(stored, backed_up, "a") == ["connection"]
    _, found, _ = stored("explain", "a")
    assert "'b'" in of(found, "connection")[-1]["evidence"]
    assert stored("explain", "b")[1]["kept_by"] == ["connection"], "once"


def test_a_plan_of_groups_that_were_named(site: Site, backed_up: Planned, stored: Cli) -> None:
    done = site.delete(group_ids=["b"], dry_run=False)
    assert kept(stored, {"plan_id": done["plan_id"], "digest": done["plan_digest"]}, "b")[0] == "plan"


def test_a_backup_of_another_plan(site: Site, backed_up: Planned, stored: Cli) -> None:
    manifest = site.folder / "backups" / f"{backed_up['plan_id']}.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "plan_digest": "0" * 64}))
    assert kept(stored, backed_up) == ["recheck"]
