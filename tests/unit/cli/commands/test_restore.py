"""Restoring from the command line: a dry run by default."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.commands import change
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.json_files import write_listing
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli

pytestmark = pytest.mark.safety


@pytest.fixture
def deleted(backed_up: dict[str, Any], stored: Cli, admin: FakeAdmin) -> str:
    """Return a plan whose groups are deleted."""
    assert stored("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes")[0] == 0
    assert set(admin.groups) == {"live"}
    return str(backed_up["plan_id"])


def test_without_yes_nothing_is_restored(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, said = stored("restore", deleted)
    assert (code, set(admin.groups), found["dry_run"]) == (0, {"live"}, True)
    assert {group["outcome"] for group in found["groups"]} == {"would_change"}
    assert [tuple(group) for group in found["groups"]] == [change.CHANGE_COLUMNS] * 2
    assert "--yes" in said


def test_yes_restores_the_groups_that_are_named(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, _ = stored("restore", deleted, "a", "--yes")
    assert (code, set(admin.groups)) == (0, {"live", "a"})
    assert found["counts"]["changed"] == 1
    record = Path(found["record"])
    assert json.loads(record.read_text())["what"] == "restore"
    before = record.with_name(record.name.replace("-result", "-before"))
    assert [group["group_id"] for group in json.loads(before.read_text())["groups"]] == ["a"]
    assert stored("restore", deleted, "--yes")[0] == 0
    assert set(admin.groups) == {"live", "a", "b"}


def test_a_group_that_is_protected_is_kept(
    admin: FakeAdmin, deleted: str, stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = '{"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"%s": %s}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", fields % ("protected_groups", '["b"]'))
    code, found, _ = stored("restore", deleted, "--yes")
    assert (code, set(admin.groups)) == (3, {"live", "a"})
    assert found["counts"]["kept"] == 1
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", fields % ("read_only", "true"))
    assert stored("restore", deleted, "b", "--yes")[0] == 2
    assert set(admin.groups) == {"live", "a"}


def test_a_group_that_is_in_no_backup_is_bad_usage(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, said = stored("restore", deleted, "live", "--yes")
    assert (code, found) == (2, None)
    assert "not in the backup" in said


def test_what_was_restored_is_told_also_where_it_cannot_be_recorded(
    admin: FakeAdmin, deleted: str, stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the result is written: the offsets are committed by then."""

    def full(folder: Any, name: str, *more: Any) -> Any:
        if name.endswith("-result.json"):
            raise StorageError(f"{folder}/{name} could not be written: No space left on device")
        return write_listing(folder, name, *more)

    monkeypatch.setattr("airflow_kafka_groups.change.restore.change_offsets.write_listing", full)
    code, found, said = stored("restore", deleted, "--yes")
    assert (code, found, set(admin.groups)) == (1, None, {"live", "a", "b"})
    assert "No space left on device" in said
    assert "changed 2" in said
    code, _, said = stored("restore", deleted)
    assert code == 1
    assert "changed" not in said.partition("No space")[2], "a dry run has changed nothing"
