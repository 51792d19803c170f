"""Plans of the command line keep what those of the shipped DAGs keep: by the site's KAFKA_GROUPS_DEFAULTS."""

import json
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion import run
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import Site


@pytest.fixture(autouse=True)
def judged(site: Site) -> str:
    return site.judged_once(["a", "b", "c"], ["live"])


def defaults(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps(values))


@pytest.mark.safety
def test_a_group_that_the_site_excludes_is_not_planned(stored: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults(monkeypatch, exclude=["a"])
    for more, planned in (((), ["b", "c"]), (("--exclude", "b"), ["c"]), (("--include", "a"), [])):
        code, found, _ = stored("plan", "--max-share", "1", *more)
        assert (code, sorted(group["group_id"] for group in found["groups"])) == (0, planned), more


@pytest.mark.safety
def test_the_policy_file_of_the_site_decides(stored: Cli, site: Site) -> None:
    (site.storage / "policy.yaml").write_text(
        "version: 1\nlimits: {max_share: 1.0}\nprotect: [a]\nrules: [{name: r, action: delete, idle: 1d}]\n"
    )
    defaults(site.patch, policy_file=str(site.storage / "policy.yaml"), min_idle_seconds="9d", max_share=1)
    code, found, _ = stored("plan")
    assert (code, sorted(group["group_id"] for group in found["groups"])) == (0, ["b", "c"])
    code, _, said = stored("plan", "--min-idle", "1d")
    assert (code, "--min-idle: is for plans without a policy file" in said) == (2, True)
    assert "leave it out, for KAFKA_GROUPS_DEFAULTS.policy_file names one" in said, "there is no other option"


def test_the_limits_of_the_site_count_unless_others_are_given(stored: Cli, site: Site) -> None:
    limits = {"min_idle_seconds": "1d", "min_observations": 3, "max_groups": 1, "max_share": 1, "max_gap_seconds": "3d"}
    defaults(site.patch, **limits, include=["a", "b"], offsets_retention_minutes=0, commit_log="auto")
    policy = load_plan(site.layout, stored("plan")[1]["plan_id"]).policy
    assert (policy.min_idle_seconds, policy.min_observations, policy.max_groups) == (86_400, 3, 1)
    assert (policy.max_share, policy.max_gap_seconds, policy.include) == (1, 3 * 86_400, ("a", "b"))
    _, found, _ = stored("plan", "--max-groups", "7", "--include", "c")
    policy = load_plan(site.layout, found["plan_id"]).policy
    assert (policy.max_groups, policy.include) == (7, ("c",))


@pytest.mark.safety
def test_a_site_that_requires_the_log_of_commits_gets_no_plan_without_it(
    stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stored("plan")[0] == 0
    defaults(monkeypatch, commit_log="required")
    code, _, said = stored("plan")
    assert (code, "log of commits" in said) == (1, True)


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        *(("plan", "max_groups", 0), ("plan", "min_idle_seconds", "7x"), ("plan", "exclude", ["re:("])),
        *(("plan", "exlude", ["a"]), ("plan", "commit_log", "Required"), ("plan", "max_share", 0)),
        *(("plan", "offsets_retention_minutes", "a week"), ("plan", "min_idle_seconds", 0)),
        *(("prune-topics", "topic_idle_seconds", 0), ("prune-topics", "policy_file", "policy.yaml")),
    ],
)
def test_a_default_that_cannot_be_is_named_and_is_no_option_that_was_typed(
    stored: Cli, monkeypatch: pytest.MonkeyPatch, command: str, name: str, value: Any
) -> None:
    defaults(monkeypatch, **{name: value})
    code, _, said = stored(command)
    assert (code, "KAFKA_GROUPS_DEFAULTS" in said, name in said, "--" in said) == (2, True, True, False), said


def test_a_floor_that_cannot_be_is_no_option_that_was_typed(stored: Cli, site: Site) -> None:
    site.configure(storage_path=site.storage)
    site.configure(max_share="7")
    code, _, said = stored("plan", "--max-share", "0.5")
    assert (code, "[kafka_groups].max_share (got 7.0)" in said, "--" in said) == (2, True, False)


@pytest.mark.parametrize(
    ("option", "pace"), [((), 5.0), (("--groups-per-second", "2"), 2.0), (("--groups-per-second", "0"), None)]
)
def test_groups_are_deleted_at_the_pace_of_the_site(
    stored: Cli, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...], pace: float | None
) -> None:
    used: list[float | None] = []

    async def noted(*arguments: Any, **_: Any) -> None:
        used.append(arguments[4].limits.groups_per_second)
        raise PlanError("enough")

    _, found, _ = stored("plan", "--max-share", "1")
    monkeypatch.setattr(run, "delete_by_plan", noted)
    defaults(monkeypatch, groups_per_second=5)
    assert stored("apply", found["plan_id"], *option)[0] == 1
    assert used == [pace]


def test_an_empty_path_of_a_policy_file_is_no_file_as_in_the_form(stored: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults(monkeypatch, policy_file="")
    assert stored("plan")[0] == 0
    assert stored("prune-topics")[0] == 0
