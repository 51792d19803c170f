"""Files are old by their ids: a clock that is wrong, or a pause, removes nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits
from airflow_kafka_groups.change.file_pruning import prune as prune_files
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.layout import Layout
from tests.exhaustive.operators.test_file_pruning import files, prune
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene


def written_days_ago(*days: float) -> list[str]:
    """Return ids of these days."""
    return [f"{datetime.now(UTC) - timedelta(days=each):%Y%m%dT%H%M%SZ}-0000000{n}" for n, each in enumerate(days)]


@pytest.mark.safety
@pytest.mark.parametrize("ahead", [0, 40, 400])
def test_a_clock_that_is_far_ahead_makes_nothing_old(tmp_path: Path, ahead: int) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    for id_ in written_days_ago(500, 100, 1):
        (layout.root / "listings").mkdir(parents=True, exist_ok=True)
        (layout.root / "listings" / f"{id_}.json").write_bytes(b'{"format": 1}')
    limits = PruningLimits(days={kind: 365 for kind in FileKind}, keep_newest=1)
    before, now = files(tmp_path), datetime.now(UTC) + timedelta(days=ahead)
    if not ahead:
        assert prune_files(layout, limits, now=now, dry_run=False).files == 1
        return
    for dry_run in (True, False):
        with pytest.raises(MaintenanceError) as caught:
            prune_files(layout, limits, now=now, dry_run=dry_run)
    assert files(tmp_path) == before
    for part in (scene.CLUSTER, "listing 20", f"{now:%Y-%m-%dT%H:%M}", f"{ahead + 1}d", "take a snapshot first"):
        assert part in str(caught.value)


def test_a_file_that_another_clock_dated_ahead_does_not_prove_this_one_right(tmp_path: Path) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    (layout.root / "listings").mkdir(parents=True)
    for id_ in written_days_ago(500, 400, 300, -4000):
        (layout.root / "listings" / f"{id_}.json").write_bytes(b'{"format": 1}')
    before = files(tmp_path)
    limits = PruningLimits(days={kind: 90 for kind in FileKind}, keep_newest=1)
    with pytest.raises(MaintenanceError, match="nothing is removed"):
        prune_files(layout, limits, now=datetime.now(UTC), dry_run=False)
    assert files(tmp_path) == before


def test_files_that_are_made_and_pruned_once_a_month_are_no_pause(tmp_path: Path) -> None:
    """Of the months with 31 days, each pruning before the month's snapshot was refused."""
    layout = Layout(tmp_path, scene.CLUSTER)
    (layout.root / "listings").mkdir(parents=True)
    for id_ in written_days_ago(*(31.2 + 31 * month for month in range(4))):
        (layout.root / "listings" / f"{id_}.json").write_bytes(b'{"format": 1}')
    limits = PruningLimits(days={kind: 40 for kind in FileKind}, keep_newest=1)
    assert prune_files(layout, limits, now=datetime.now(UTC), dry_run=False).files == 3


def test_after_a_pause_of_months_a_snapshot_is_enough(admin: FakeAdmin, tmp_path: Path) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    (layout.root / "listings").mkdir(parents=True)
    for id_ in written_days_ago(500, 200):
        (layout.root / "listings" / f"{id_}.json").write_bytes(b'{"format": 1}')
    with pytest.raises(MaintenanceError, match="such as after a pause"):
        prune(tmp_path)
    scene.take_snapshot(tmp_path)
    assert prune(tmp_path)["removed"]["listing"] == 1


def test_where_nothing_is_to_be_removed_no_new_file_is_asked_for(tmp_path: Path) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    (layout.root / "listings").mkdir(parents=True)
    (layout.root / "listings" / f"{written_days_ago(500)[0]}.json").write_bytes(b'{"format": 1}')
    assert prune(tmp_path)["files"] == 0, "the newest stays"
