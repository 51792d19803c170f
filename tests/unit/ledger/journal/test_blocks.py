"""Bodies in lines: one group costs one line, and a line that was changed is found out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.ledger.journal import blocks
from airflow_kafka_groups.ledger.journal.blocks import Blocks, write_blocks
from airflow_kafka_groups.storage.file_storage import FILES

NAMES = [f"g{number:03d}" for number in range(25)]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_GROUPS", 10)


def write(folder: Path, names: list[str]) -> dict[str, Any]:
    return write_blocks(folder / "body.jsonl", names, lambda name: name, lambda some: {"groups": list(some)})


def test_everything_comes_back_sorted(tmp_path: Path) -> None:
    body = Blocks(tmp_path, write(tmp_path, NAMES[::-1]))
    assert [name for line in body.read() for name in line["groups"]] == NAMES


@pytest.mark.parametrize("name", ["g000", "g009", "g010", "g024", "g0095", "z", ""])
def test_one_group_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    index = write(tmp_path, NAMES)
    read: list[int] = []

    def noted(path: Path, start: int, end: int) -> bytes:
        read.append(end - start)
        return path.read_bytes()[start:end]

    monkeypatch.setattr(FILES, "read", noted)
    found = Blocks(tmp_path, index).find(name)
    assert (name in found["groups"] if found else False) == (name in NAMES)
    assert sum(read) <= 100 < index["bytes"]


def damages(path: Path) -> Iterator[None]:
    content = path.read_bytes()
    for changed in (content.replace(b"g003", b"g0x3"), content[:-1], b""):
        path.write_bytes(changed)
        yield
    path.unlink()
    yield


def test_whatever_is_changed_is_found_out(tmp_path: Path) -> None:
    body = Blocks(tmp_path, write(tmp_path, NAMES))
    for _ in damages(tmp_path / "body.jsonl"):
        with pytest.raises(JournalError):
            body.verify()
        with pytest.raises(JournalError):
            list(body.read())


def test_a_changed_line_is_found_out_by_who_asks_for_its_group(tmp_path: Path) -> None:
    body = Blocks(tmp_path, write(tmp_path, NAMES))
    (tmp_path / "body.jsonl").write_bytes((tmp_path / "body.jsonl").read_bytes().replace(b"g003", b"g0x3"))
    assert body.find("g012")["groups"][0] == "g010"  # type: ignore[index]
    with pytest.raises(JournalError, match="changed"):
        body.find("g003")


def test_a_body_is_never_replaced_and_an_empty_one_is_fine(tmp_path: Path) -> None:
    write(tmp_path, NAMES)
    with pytest.raises(FileExistsAlreadyError):
        write(tmp_path, NAMES[:3])
    index = write_blocks(tmp_path / "empty.jsonl", [], str, list)
    assert list(Blocks(tmp_path, index).read()) == []
    assert Blocks(tmp_path, index).find("a") is None


@pytest.mark.parametrize(
    "index", [{}, {"file": "x", "bytes": 1}, {"file": "x", "bytes": "y", "blocks": [["a", 0, "s"]]}]
)
def test_a_damaged_index_is_an_error(tmp_path: Path, index: dict[str, Any]) -> None:
    with pytest.raises(JournalError, match="damaged"):
        Blocks(tmp_path, index)
