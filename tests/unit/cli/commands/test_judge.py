"""``judge``: what a plan rests on, from the snapshots in the storage."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER, Site


@pytest.fixture
def snapshots(site: Site) -> list[str]:
    """Take two snapshots of a group, and return their ids."""
    site.admin.groups = {"a": FakeGroup()}
    return [site.take_snapshot() for _ in range(2)]


def summary_of(tmp_path: Path, snapshot_id: str) -> dict[str, Any]:
    place = tmp_path / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id}.json"
    found: dict[str, Any] = json.loads(place.read_text())
    return found


def test_the_newest_snapshot_is_judged_by_the_defaults_of_a_plan(
    stored: Cli, snapshots: list[str], tmp_path: Path
) -> None:
    newest = max(snapshots)
    code, found, said = stored("judge")
    assert (code, found["snapshot_id"], found["groups"]) == (0, newest, 1)
    assert found["verdicts"] == [{"verdict": "settling", "groups": 1, "lag": found["verdicts"][0]["lag"]}]
    policy = {"min_idle_seconds": 604_800.0, "min_observations": 2, "max_gap_seconds": 172_800.0}
    assert summary_of(tmp_path, newest)["policy"] == policy
    assert "Next: airflow-kafka-groups plan --conn-id kafka_groups_default" in said


def test_options_count_then_the_site_s_defaults(stored: Cli, snapshots: list[str], site: Site) -> None:
    site.defaults({"min_idle_seconds": "5d", "max_gap_seconds": 0})
    oldest = min(snapshots)
    assert stored("judge", "--snapshot-id", oldest, "--min-observations", "3")[0] == 0
    assert stored("judge", "--min-idle", "36h", "--max-gap", "1d")[0] == 0
    of_site, given = (summary_of(site.storage, name)["policy"] for name in (oldest, max(snapshots)))
    assert of_site == {"min_idle_seconds": 432_000.0, "min_observations": 3, "max_gap_seconds": 0.0}
    assert given == {"min_idle_seconds": 129_600.0, "min_observations": 2, "max_gap_seconds": 86_400.0}


def pasted(cli: Cli, said: str) -> tuple[int, Any, str]:
    """Run the command that another one proposes."""
    return cli(*shlex.split(said.rpartition("Next: ")[2].partition("\n")[0])[1:])


@pytest.mark.parametrize("words", [(), ("--min-idle", "36h", "--max-gap", "30d", "--min-observations", "2")])
def test_the_plan_that_follows_accepts_what_was_judged(
    cli: Cli, stored: Cli, snapshots: list[str], words: tuple[str, ...]
) -> None:
    code, _, said = stored("judge", *words, "--snapshot-id", min(snapshots))
    assert code == 0
    code, found, said = pasted(cli, said)
    assert (code, found and found["snapshot_id"]) == (0, min(snapshots)), said


@pytest.mark.parametrize("words", [(), ("--min-idle", "1h", "--min-observations", "5")])
@pytest.mark.parametrize("limits", ["", "limits: {max_gap: 5d}\n"])
def test_with_a_site_s_policy_file_its_times_count(
    cli: Cli, stored: Cli, snapshots: list[str], site: Site, words: tuple[str, ...], limits: str
) -> None:
    rules = "version: 1\nrules:\n- {name: all, action: delete, idle: 3d, observations: 4}\n"
    (site.storage / "policy.yaml").write_text(f"{rules}{limits}")
    site.defaults({"policy_file": str(site.storage / "policy.yaml")})
    code, _, said = stored("judge", *words)
    of_file = {"min_idle_seconds": 259_200.0, "min_observations": 4}
    given = {"min_idle_seconds": 3600.0, "min_observations": 5}
    gap = 432_000.0 if limits else 172_800.0
    assert (code, summary_of(site.storage, max(snapshots))["policy"]) == (
        0,
        {**(given if words else of_file), "max_gap_seconds": gap},
    )
    code, found, said = pasted(cli, said)
    assert (code, found and found["snapshot_id"]) == (0, max(snapshots)), said


def test_a_policy_file_that_is_wrong_is_named(stored: Cli, snapshots: list[str], site: Site) -> None:
    (site.storage / "policy.yaml").write_text("version: 1\nrules: []\n")
    site.defaults({"policy_file": str(site.storage / "policy.yaml")})
    code, _, said = stored("judge")
    assert (code, "KAFKA_GROUPS_DEFAULTS.policy_file" in said) == (2, True)


def test_a_local_url_is_judged_where_it_leads(cli: Cli, snapshots: list[str], tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    shutil.copytree(tmp_path / CLUSTER, tmp_path / "a b" / CLUSTER)
    code, found, said = cli("judge", "--storage-path", f"file://{tmp_path}/a%20b", "--cluster", CLUSTER)
    assert (code, found and found["snapshot_id"]) == (0, max(snapshots)), said
    assert pasted(cli, said)[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ("--min-idle soon", 2, "--min-idle"),
        ("--min-observations 1", 2, "--min-observations"),
        ("--snapshot-id newest", 2, "judge_staleness: has a wrong argument: --snapshot-id (got 'newest'): give"),
        ("--snapshot-id 20200101T000000Z-0123abcd", 1, "has no manifest"),
    ],
)
def test_what_cannot_be_judged_is_named(stored: Cli, snapshots: list[str], words: str, code: int, why: str) -> None:
    found = stored("judge", *words.split())
    assert (found[0], found[1]) == (code, None)
    assert why in found[2]


@pytest.mark.safety
@pytest.mark.parametrize("by", ["defaults", "policy", "floor"])
def test_verdicts_that_have_to_rest_on_the_log_of_commits_are_not_replaced(
    stored: Cli, snapshots: list[str], site: Site, by: str
) -> None:
    """Those of the DAG would be lost, and no plan could be made of the new ones."""
    policy = site.storage / "policy.yaml"
    policy.write_text(
        "version: 1\nlimits: {require_commit_log: true}\nrules: [{name: all, idle: 7d, action: delete}]\n"
    )
    defaults = {"defaults": {"commit_log": "required"}, "policy": {"policy_file": str(policy)}}.get(by, {})
    site.defaults(defaults)
    if by == "floor":
        site.configure(require_commit_log="True")
    code, found, said = stored("judge")
    assert (code, found) == (2, None)
    assert "the log of commits, which this command does not read: run the DAG cleanup_stale_groups" in said
    assert not (site.folder / "summaries").exists()


def test_the_retention_is_the_option_s_then_the_site_s_then_the_snapshot_s(
    stored: Cli, snapshots: list[str], site: Site
) -> None:
    newest = max(snapshots)
    of_snapshot = load_manifest(site.layout, newest).offsets_retention_minutes or 0
    assert stored("judge")[0] == 0
    assert summary_of(site.storage, newest)["offsets_retention_minutes"] == of_snapshot > 1
    site.defaults({"offsets_retention_minutes": 1_440})
    assert stored("judge")[0] == 0
    assert summary_of(site.storage, newest)["offsets_retention_minutes"] == 1_440
    code, _, said = stored("judge", "--offsets-retention-minutes", "2880")
    assert (code, "plan --offsets-retention-minutes 2880" in said) == (0, True), said
    assert summary_of(site.storage, newest)["offsets_retention_minutes"] == 2_880
