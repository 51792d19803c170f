"""Pruning of files works wherever the storage folder is, and whatever somebody has put into it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.operators.file_pruning import PruneFilesOperator
from tests.unit.operators import scene

OLD = "20200101T000000Z-00000001"


def prune(storage: Path) -> dict[str, Any]:
    found: dict[str, Any] = PruneFilesOperator(
        task_id="p", storage_path=str(storage), cluster=scene.CLUSTER, keep_newest=1, dry_run=False
    ).execute({})
    return found


def write(storage: Path, where: str, content: dict[str, Any]) -> Path:
    path = storage / scene.CLUSTER / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "cluster": scene.CLUSTER, **content}))
    return path


def new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002"


@pytest.mark.parametrize("above", ["kafka", "backups/kafka", "plans/kafka"])
def test_a_plan_or_a_backup_alone_goes_whatever_the_folders_above_are_called(tmp_path: Path, above: str) -> None:
    storage = tmp_path / above
    times = {"expires_at": "2020-01-02T00:00:00+00:00"}
    for number, plan_id in enumerate((OLD, OLD.replace("0101T", "0102T"), new_id())):
        if number != 1:
            write(storage, f"plans/{plan_id}.parquet", {})
            write(storage, f"plans/{plan_id}.json", {"plan_id": plan_id, **times})
            continue
        write(storage, f"backups/{plan_id}-0a1b2c3d.parquet", {})
        write(storage, f"backups/{plan_id}.json", {"plan_id": plan_id})
    found = prune(storage)
    assert found["foreign"] == {}
    assert found["removed"]["cleanup"] == 2


@pytest.mark.parametrize("where", [f"data/{OLD}", f"approvals/{OLD}", f"tables/observations/snapshot_id={OLD}"])
def test_a_file_where_a_folder_belongs_keeps_its_set_and_not_all_others(tmp_path: Path, where: str) -> None:
    """A copy tool that writes no folders, or an empty object by which a store shows one, leaves such a file."""
    odd = write(tmp_path, where, {})
    listing = write(tmp_path, f"listings/{OLD}.json", {})
    for kind in ("listings", "manifests", "plans"):
        newest = new_id()
        ids = {"snapshot_id": newest, "plan_id": newest, "expires_at": "2020-01-02T00:00:00+00:00"}
        write(tmp_path, f"{kind}/{newest}.json", ids)
    found = prune(tmp_path)
    assert odd.exists()
    assert not listing.exists()
    assert len(found["foreign"]) == 1


@pytest.mark.parametrize("where", [f"reports/{OLD}.html", f"members/{OLD}.parquet", f"backups/{OLD}.parquet"])
def test_a_folder_where_a_file_belongs_keeps_its_set_and_not_all_others(tmp_path: Path, where: str) -> None:
    odd = tmp_path / scene.CLUSTER / where
    odd.mkdir(parents=True)
    listing = write(tmp_path, f"listings/{OLD}.json", {})
    write(tmp_path, f"backups/{OLD}.json", {"plan_id": OLD})
    write(tmp_path, f"manifests/{OLD}.json", {"snapshot_id": OLD})
    for kind in ("listings", "manifests", "plans"):
        newest = new_id()
        ids = {"snapshot_id": newest, "plan_id": newest, "expires_at": "2020-01-02T00:00:00+00:00"}
        write(tmp_path, f"{kind}/{newest}.json", ids)
    found = prune(tmp_path)
    assert odd.exists()
    assert not listing.exists()
    assert len(found["foreign"]) == 1
