"""The records of changes that create no group: a plan looks into them only as far as it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.contracts.paths import CHANGES
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.maintenance.durable_files import read_file
from airflow_kafka_groups.maintenance.keep_alive.moves import without_moves
from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.storage import Layout, parse_json, write_json, write_listing

AFTER = [{"topic": "t", "partitions": [0], "offsets": [4], "leader_epochs": [-1], "metadata": None}]
GROUPS = [{"group_id": f"g{number}", "before": [], "after": AFTER, "kept": None} for number in range(50)]


@pytest.mark.parametrize(
    ("what", "is_parsed"), [("reset", False), ("delete offsets", False), ("alter", True), ("restore", True)]
)
@pytest.mark.parametrize("listed", [True, False], ids=["a line each", "indented"])
def test_the_offsets_of_a_reset_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, *, is_parsed: bool, listed: bool
) -> None:
    """By length: a year of resets of 2,000 groups a day took each plan and deletion a minute."""
    layout, head = Layout(tmp_path, "prod"), {"format": 1, "what": what, "facts": '"groups": ['}
    place = (layout.root / CHANGES, "20260301T120000Z-00000001-before.json")
    path = write_listing(*place, head, "groups", GROUPS) if listed else write_json(*place, {**head, "groups": GROUPS})
    lengths = list[int]()

    def noted(content: bytes, *arguments: Any, **more: Any) -> dict[str, Any]:
        lengths.append(len(content))
        return parse_json(content, *arguments, **more)

    monkeypatch.setattr("airflow_kafka_groups.maintenance.json_files.parse_json", noted)
    found = KeepAliveRecords(layout).read()
    assert len(found) == (50 if is_parsed else 0)
    assert (lengths[0] < 200, lengths[0] == len(path.read_bytes())) == (not is_parsed, is_parsed)


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
    """By length: eight records of resets of 60,000 groups took each plan and deletion of a year gigabytes of memory."""
    layout, head = Layout(tmp_path, "prod"), {"format": 1, "what": what}
    groups = [{**GROUPS[0], "group_id": f"g{number}"} for number in range(2_000)]
    path = write_listing(layout.root / CHANGES, "20260301T120000Z-00000001-before.json", head, "groups", groups)
    lengths = list[int]()

    def noted(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        if refuses and end is not None:
            raise StorageError("it has no such part")
        content = read_file(path, start, end)
        lengths.append(len(content or b""))
        return content

    for module in ("json_files", "keep_alive.moves"):
        monkeypatch.setattr(f"airflow_kafka_groups.maintenance.{module}.read_file", noted, raising=False)
    assert len(KeepAliveRecords(layout).read()) == found
    assert sum(lengths) == len(read_file(path) or b"") if refuses else sum(lengths) < most


@pytest.mark.safety
@pytest.mark.parametrize(("what", "found"), [("restore", 50), ("reset", 0)])
@pytest.mark.parametrize("most", [0, 1, 100, 4_000])
def test_a_storage_that_gives_fewer_bytes_than_asked_for_hides_no_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, found: int, most: int
) -> None:
    """A server of SFTP may: half of a record is a damaged one, of which nobody wants a group to stay."""
    layout, head = Layout(tmp_path, "prod"), {"format": 1, "what": what}
    write_listing(layout.root / CHANGES, "20260301T120000Z-00000001-before.json", head, "groups", GROUPS)

    def short(path: Path, start: int | None = None, end: int | None = None) -> bytes | None:
        return read_file(path, start, end if end is None else min(end, most))

    monkeypatch.setattr("airflow_kafka_groups.maintenance.keep_alive.moves.read_file", short)
    assert len(KeepAliveRecords(layout).read()) == found
