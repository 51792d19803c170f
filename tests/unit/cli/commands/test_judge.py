"""``judge``: what a plan rests on, from the snapshots in the storage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.commands import judge
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene
from tests.unit.operators.scene import CLUSTER


@pytest.fixture
def snapshots(admin: FakeAdmin, tmp_path: Path) -> list[str]:
    """Take two snapshots of a group, and return their ids."""
    admin.groups = {"a": FakeGroup()}
    return [scene.take_snapshot(tmp_path) for _ in range(2)]


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
    assert summary_of(tmp_path, newest)["policy"] == policy == {**judge._DEFAULTS}
    assert "Next: airflow-kafka-groups plan --min-idle 7d --conn-id kafka_groups_default" in said


def test_options_count_then_the_site_s_defaults(
    stored: Cli, snapshots: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"min_idle_seconds": "5d", "max_gap_seconds": 0}))
    oldest = min(snapshots)
    assert stored("judge", "--snapshot-id", oldest, "--min-observations", "3")[0] == 0
    assert stored("judge", "--min-idle", "36h", "--max-gap", "1d")[0] == 0
    of_site, given = (summary_of(tmp_path, name)["policy"] for name in (oldest, max(snapshots)))
    assert of_site == {"min_idle_seconds": 432_000.0, "min_observations": 3, "max_gap_seconds": 0.0}
    assert given == {"min_idle_seconds": 129_600.0, "min_observations": 2, "max_gap_seconds": 86_400.0}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--min-idle", "soon"), 2, "--min-idle"),
        (("--min-observations", "1"), 2, "--min-observations"),
        (("--snapshot-id", "newest"), 2, "wrong argument"),
        (("--snapshot-id", "20200101T000000Z-0123abcd"), 1, "has no manifest"),
    ],
)
def test_what_cannot_be_judged_is_named(
    stored: Cli, snapshots: list[str], words: tuple[str, ...], code: int, why: str
) -> None:
    found = stored("judge", *words)
    assert (found[0], found[1]) == (code, None)
    assert why in found[2]
