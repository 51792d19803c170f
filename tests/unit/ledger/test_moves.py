"""The records of changes that create no group: whoever prunes looks into them only as far as it must."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.ledger.keep_alive_records import read_unless_move, without_moves
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.json_files import read_json, write_json, write_listing
from airflow_kafka_groups.storage.layout import StoragePath

NAME = "20260301T120000Z-00000001-before.json"
AFTER = [{"topic": "t", "partitions": [0], "offsets": [4], "leader_epochs": [-1], "metadata": None}]
GROUPS = [{"group_id": f"g{number}", "before": [], "after": AFTER, "kept": None} for number in range(50)]


def head_of(path: StoragePath) -> dict[str, Any]:
    """Read a record as a pruning does."""
    return read_json(path, "it", MaintenanceError, part=without_moves, read=read_unless_move)


@pytest.mark.parametrize(
    ("what", "is_parsed"), [("reset", False), ("delete offsets", False), ("alter", True), ("restore", True)]
)
@pytest.mark.parametrize("listed", [True, False], ids=["a line each", "indented"])
def test_the_offsets_of_a_reset_are_not_parsed(tmp_path: Path, what: str, *, is_parsed: bool, listed: bool) -> None:
    head = {"format": 1, "what": what, "facts": '"groups": ['}
    path = (
        write_listing(tmp_path, NAME, head, "groups", GROUPS)
        if listed
        else write_json(tmp_path, NAME, {**head, "groups": GROUPS})
    )
    assert head_of(path) == {**head, "groups": GROUPS if is_parsed else []}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"groups": [', b'{"what": 1, "groups": []}', b'{"what": "reset"}', b'{"what": {}, "groups": ['],
)
def test_what_is_no_record_of_such_a_change_stays_as_it_is(content: bytes) -> None:
    assert without_moves(content) == content


@pytest.mark.parametrize(
    ("what", "found", "most"), [("reset", 0, 10_000), ("delete offsets", 0, 10_000), ("restore", 2_000, 10**6)]
)
@pytest.mark.parametrize("refuses", [False, True])
def test_the_offsets_of_a_reset_are_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, found: int, most: int, *, refuses: bool
) -> None:
    """By length: records of resets of 60,000 groups stay for a year, and each pruning reads them."""
    groups = [{**GROUPS[0], "group_id": f"g{number}"} for number in range(2_000)]
    path = write_listing(tmp_path, NAME, {"format": 1, "what": what}, "groups", groups)
    lengths = list[int]()

    def noted(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        if refuses and end is not None:
            raise StorageError("it has no such part")
        content = Storage().read(path, start, end)
        lengths.append(len(content or b""))
        return content

    monkeypatch.setattr(FILES, "read", noted)
    assert len(head_of(path)["groups"]) == found
    assert sum(lengths) == len(FILES.read(path) or b"") if refuses else sum(lengths) < most


@pytest.mark.parametrize(("what", "found"), [("restore", 50), ("reset", 0)])
@pytest.mark.parametrize("most", [0, 1, 100, 4_000])
def test_a_storage_that_gives_fewer_bytes_than_asked_for_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, found: int, most: int
) -> None:
    path = write_listing(tmp_path, NAME, {"format": 1, "what": what}, "groups", GROUPS)

    def short(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        return Storage().read(path, start, end if end is None else min(end, most))

    monkeypatch.setattr(FILES, "read", short)
    assert len(head_of(path)["groups"]) == found
