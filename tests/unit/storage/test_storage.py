from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

from airflow_kafka_groups.exceptions import MaintenanceError, PlanError, StorageError
from airflow_kafka_groups.storage import json_files as storage
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.refusing_path import BotoError, RefusingPath

ID = "20260301T120000Z-0123abcd"


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_json(tmp_path / "x", "a.json", {"format": 1, "name": "grüppe"})
    assert read_json(tmp_path / "x" / "a.json", "it", PlanError)["name"] == "grüppe"

    def crash(self: Path, target: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(StorageError, match="full"):
        storage.write_json(tmp_path / "x", "b.json", {"format": 1})
    assert not (tmp_path / "x" / "b.json").exists()


def test_storage_that_loses_bytes_is_noticed() -> None:
    class Forgetful:
        name = "f"

        def __truediv__(self, part: str) -> Forgetful:
            return self

        protocol = "s3"
        path = "f"

        @property
        def fs(self) -> Forgetful:
            return self

        def invalidate_cache(self, key: str) -> None: ...

        def pipe_file(self, key: str, data: bytes) -> None: ...

        def cat_file(self, key: str, start: int) -> bytes:
            return b""

    with pytest.raises(MaintenanceError, match="differs from what was written"):
        storage.write_json(Forgetful(), "a.json", {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing"),
        (b"", "incomplete"),
        (b'{"format": 1, "groups": [', "incomplete"),
        (b"\xff\xfe", "incomplete"),
        (b"[" * 200_000, "damaged or incomplete"),
        (b"[]", "no JSON object|not a JSON object"),
        (b'{"format": 2}', "format 2"),
        (b"{}", "format None"),
    ],
)
def test_a_file_that_is_no_good_says_so(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PlanError, match=message):
        read_json(path, "the plan", PlanError)


def test_airflows_object_storage_is_such_a_path() -> None:
    sdk = pytest.importorskip("airflow.sdk")
    sdk.io.attach("memory", fs=fsspec.filesystem("memory"))
    root = sdk.ObjectStoragePath("memory://groups/base")
    layout = Layout(root, "prod")
    path = storage.write_json(layout.root / "plans", f"{ID}.json", {"format": 1, "x": [1]})
    assert read_json(layout.plan(ID), "it", PlanError) == {"format": 1, "x": [1]}
    assert [child.name for child in (layout.root / "plans").iterdir()] == [f"{ID}.json"]
    assert path.exists()
    with pytest.raises(PlanError, match="missing"):
        read_json(layout.manifest(ID), "it", PlanError)


def test_a_long_list_is_written_entry_by_entry(tmp_path: Path) -> None:
    lists: list[list[dict[str, object]]] = [[], [{"a": 1}], [{"a": 1}, {"b": "ü\n"}]]
    for rows in lists:
        path = storage.write_listing(tmp_path, "l.json", {"format": 1, "what": "x"}, "groups", iter(rows))
        assert json.loads(path.read_bytes()) == {"format": 1, "what": "x", "groups": rows}
    assert [file.name for file in tmp_path.iterdir()] == ["l.json"]


def test_a_disk_that_loses_bytes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def torn(self: Path, target: Path) -> Path:
        self.write_bytes(self.read_bytes()[:-1])
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", torn)
    with pytest.raises(MaintenanceError, match="differs from what was written"):
        storage.write_json(tmp_path, "a.json", {})


@pytest.mark.parametrize("refused", ["write_bytes", "read_bytes"])
def test_an_error_of_the_storage_names_the_path_and_the_remedy(tmp_path: Path, refused: str) -> None:
    folder: Any = RefusingPath(tmp_path, refused)
    with pytest.raises(
        StorageError, match=r"one\.json could not be written: BotoError: AccessDenied.*storage_path"
    ) as it:
        storage.write_json(folder, "one.json", {"format": 1})
    assert isinstance(it.value.__cause__, BotoError)


def test_an_error_of_the_storage_is_never_a_file_that_is_missing(tmp_path: Path) -> None:
    path: Any = RefusingPath(tmp_path / "one.json", "read_bytes")
    with pytest.raises(StorageError, match="could not be read: BotoError"):
        read_json(path, "the plan", PlanError)


def test_a_missing_right_names_who_has_to_give_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StorageError, match="Give this user access, or choose another storage_path"):
        FILES.replace(tmp_path / "folder" / "one.json", b"x")


def test_a_disk_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be written"):
        FILES.replace(tmp_path / "file" / "one.json", b"x")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_could_not_be_written_leaves_nothing_on_a_full_disk(tmp_path: Path, error: BaseException) -> None:
    """Each further try would take more of it, and nobody removes what has no name."""

    def parts() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise error

    with pytest.raises((StorageError, KeyboardInterrupt)):
        FILES.replace(tmp_path / "a.json", parts())
    assert list(tmp_path.iterdir()) == []
