"""Pruning topics from the command line: a plan first, then a dry run, then ``--yes``."""

import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.explain import BY_TOPIC, rows_of_pruning
from airflow_kafka_groups.judge.verdict_names import KeptTopic
from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.ledger.outcomes import of_deletion
from airflow_kafka_groups.ledger.plan_rows import name_of
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.records import history_before
from tests.unit.change.prune_topics.scene import HOUR, cluster, snapshots
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER, Site

PLAN = ("prune-topics", "--min-idle-seconds", "7200", "--max-share", "1")


@pytest.fixture(autouse=True)
def abandoned(site: Site) -> None:
    made = cluster()
    site.admin.log, site.admin.groups = made.log, made.groups
    asyncio.run(snapshots(site.admin, site.layout, 4, first=utc_now() - 3 * HOUR))


def test_a_plan_is_shown_then_tried_and_then_applied(admin: FakeAdmin, stored: Cli) -> None:
    code, made, said = stored(*PLAN)
    assert (code, [(item["group_id"], item["topic"]) for item in made["topics"]]) == (0, [("app", "old")])
    assert "Nothing was deleted" in said
    of = ("prune-topics", "--plan-id", made["plan_id"])
    code, tried, said = stored(*of)
    assert (code, tried["dry_run"], tried["outcomes"][0]["outcome"]) == (0, True, "would_delete")
    assert tried["outcomes"][0]["reason"] == "nobody subscribes to it, unmoved, not backed up yet"
    assert f"--digest {made['digest']} --yes" in said
    assert stored(*of, "--yes")[0] == 2, "the digest is required"
    assert admin.asked("delete offsets") == []
    code, done, said = stored(*of, "--digest", made["digest"], "--yes")
    assert (code, done["counts"]["deleted"], admin.asked("delete offsets")) == (0, 1, ["app"])
    assert f"restore {made['plan_id']}" in said


@pytest.mark.safety
@pytest.mark.parametrize("option", [["--include", "other"], ["--max-groups", "1"], ["--min-idle", "30d"], ["--kept"]])
def test_a_limit_that_would_not_count_is_refused(admin: FakeAdmin, stored: Cli, option: list[str]) -> None:
    _, made, _ = stored(*PLAN)
    of = ("prune-topics", "--plan-id", made["plan_id"], "--digest", made["digest"], "--yes")
    code, done, said = stored(*of, *option)
    assert (code, done, admin.asked("delete offsets")) == (2, None, [])
    assert f"{option[0]}: is for a new plan" in said


@pytest.mark.safety
def test_the_site_defaults_of_the_dag_count(stored: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"topic_idle_seconds": "2h", "max_share": 1}
    for exclude, topics in (([], ["old"]), (["app"], [])):
        monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({**limits, "exclude": exclude}))
        assert [item["topic"] for item in stored("prune-topics")[1]["topics"]] == topics


def test_a_snapshot_of_one_group_is_not_what_is_planned_from(site: Site, stored: Cli) -> None:
    """As offsets_to_spark takes one: it shows nothing of all other groups."""
    layout = site.layout
    newest = snapshot_ids(layout)[-1]
    site.admin.groups["other"] = FakeGroup()
    later = utc_now() + timedelta(seconds=3)
    asyncio.run(take_snapshot(site.admin, layout, group_ids=["other"], now=lambda: later))
    code, made, _ = stored(*PLAN)
    assert (code, snapshot_ids(layout)[-2], made["snapshot_id"]) == (0, newest, newest)
    assert [item["topic"] for item in made["topics"]] == ["old"]


def test_what_is_kept_is_shown_with_the_reason(stored: Cli) -> None:
    code, made, _ = stored("prune-topics", "--kept", "--max-share", "1")
    assert (code, made["kept"][0]["why"], made["counts"]["settling"]) == (0, "settling", 1)
    assert stored("prune-topics", "--yes")[0] == 2
    assert stored(*PLAN, "--min-observations", "1")[0] == 2


def test_a_topic_that_is_kept_makes_the_exit_code_3(admin: FakeAdmin, stored: Cli) -> None:
    _, made, _ = stored(*PLAN)
    admin.groups["app"]._subscribed = frozenset({"live", "old"})
    code, done, _ = stored("prune-topics", "--plan-id", made["plan_id"], "--digest", made["digest"], "--yes")
    assert (code, done["outcomes"][0]["code"]) == (3, "subscribed")


def test_explain_names_the_topics_the_rule_and_what_was_pruned(site: Site, stored: Cli) -> None:
    path = site.storage / "policy.yaml"
    path.write_text("version: 1\nlimits: {max_share: 1.0}\nrules: [{name: mine, action: prune-topics, idle: 2h}]\n")
    _, made, _ = stored("prune-topics", "--policy-file", str(path), "--max-share", "1")
    stored("prune-topics", "--plan-id", made["plan_id"], "--digest", made["digest"], "--yes")
    _, found, _ = stored("explain", "app")
    rows = [row["evidence"] for row in found["checks"] if row["check"] == "prune-topics"]
    assert len(rows) == 2
    assert "rule 'mine'" in rows[0]
    assert "deleted" in rows[1]
    time.sleep(1 - time.time() % 1)  # of two plans of one second, either may be the newest
    stored("prune-topics", "--include", "other")
    _, found, _ = stored("explain", "app")
    rows = [row for row in found["checks"] if row["check"] == "prune-topics"]
    assert ("kept (excluded)" in rows[0]["evidence"], "exclude" in rows[0]["what_would_change_it"]) == (True, True)


def test_explain_shows_all_topics_of_a_group_that_a_run_has_pruned(tmp_path: Path) -> None:
    """A run prunes as many topics of a group as it has stopped reading; those of the newest five runs are shown."""
    journal, layout = Journal(tmp_path, CLUSTER_ID), Layout(tmp_path, CLUSTER)
    for number, topics in enumerate((1, 1, 1, 1, 1, 9)):
        facts = {"run_id": f"r{number}", "request_id": f"q{number}", "dry_run": False, "what": "prune-topics"}
        done = [of_deletion(name_of("app", f"topic-{topic}"), None) for topic in range(topics)]
        journal.begin(facts, utc_now(), after=history_before(journal)).end(done, {}, utc_now())
    shown = [row.evidence.partition(": deleted")[0] for row in rows_of_pruning(layout, CLUSTER_ID, "app")]
    assert shown == [
        *(f"topic 'topic-0': run r{number}" for number in range(1, 5)),
        *(f"topic 'topic-{topic}': run r5" for topic in range(9)),
    ]


@pytest.mark.parametrize("others", [5, 55], ids=["a week of clean-ups", "two months"])
def test_explain_remembers_a_pruning_for_as_long_as_the_journal_does(others: int, site: Site, stored: Cli) -> None:
    """It looked at the last five runs of the cluster, whatever groups these were about."""
    _, made, _ = stored(*PLAN)
    stored("prune-topics", "--plan-id", made["plan_id"], "--digest", made["digest"], "--yes")
    journal = Journal(site.storage, site.admin.cluster)
    for number in range(others):
        facts = {"run_id": f"r{number}", "request_id": f"q{number}", "dry_run": False}
        journal.begin(facts, utc_now(), after=history_before(journal)).end((), {"outcomes": []}, utc_now())
    _, found, _ = stored("explain", "app")
    rows = [row for row in found["checks"] if row["check"] == "prune-topics"]
    assert len(rows) == 2
    assert "topic 'old': run " in rows[1]["evidence"]
    assert ": deleted: deleted (" in rows[1]["evidence"]
    _, found, _ = stored("explain", "other")
    assert [row for row in found["checks"] if row["check"] in ("prune-topics", "journal")] == []


def test_what_would_change_it_is_known_of_every_reason() -> None:
    assert BY_TOPIC.keys() >= {name.value for name in KeptTopic}
