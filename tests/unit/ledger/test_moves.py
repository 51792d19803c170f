"""The records of changes may have the offsets of 60,000 groups: whoever prunes reads how they begin."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.ledger.proposed_changes import read_head
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.json_files import read_json, write_json, write_listing
from airflow_kafka_groups.storage.layout import StoragePath

NAME = "20260301T120000Z-00000001-before.json"
HEAD = {"format": 1, "what": "reset", "facts": '"groups": ['}
GROUPS: list[dict[str, Any]] = [
    {"group_id": f"g{number}", "before": [], "after": [], "kept": None} for number in range(2_000)
]


def head_of(path: StoragePath) -> dict[str, Any]:
    """Read a record as a pruning does."""
    return read_json(path, "it", MaintenanceError, read=read_head)


@pytest.mark.parametrize("listed", [True, False], ids=["a line each", "indented"])
@pytest.mark.parametrize("most", [0, 1, 40, 8_192])
def test_the_offsets_of_a_change_are_not_read_and_a_part_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, *, listed: bool
) -> None:
    """By length; a storage may give fewer bytes than it was asked for."""
    place = tmp_path, NAME
    path = write_listing(*place, HEAD, "groups", GROUPS) if listed else write_json(*place, {**HEAD, "groups": GROUPS})
    lengths = list[int]()

    def short(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        content = Storage().read(path, start, end if end is None else min(end, most))
        lengths.append(len(content or b""))
        return content

    monkeypatch.setattr(FILES, "read", short)
    assert head_of(path) == {**HEAD, "groups": []}
    assert (sum(lengths) < 10_000) is (most == 8_192)


def test_a_storage_that_has_no_part_of_a_file_is_asked_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_listing(tmp_path, NAME, HEAD, "groups", GROUPS)

    def whole(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        if end is not None:
            raise StorageError("it has no such part")
        return Storage().read(path)

    monkeypatch.setattr(FILES, "read", whole)
    assert head_of(path) == {**HEAD, "groups": []}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"groups": ', b'{"what": {}'])
def test_what_is_no_record_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert read_head(tmp_path / NAME) == content
