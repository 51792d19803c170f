"""A path of an object store that refuses one kind of access, with an error that is no ``OSError``, as botocore's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.storage.layout import StoragePath


class BotoError(Exception):
    """Not an OSError, like botocore's."""


class RefusingPath:
    """A path on a disk that behaves like one of an object store.

    :param path: where the files are.
    :param refused: the method that raises: ``open``, ``read_bytes``, ``write_bytes``, ``exists`` or ``ls``.
    """

    protocol = "s3"

    def __init__(self, path: Path, refused: str = "") -> None:
        self._path, self._refused = path, refused

    def __truediv__(self, part: str) -> RefusingPath:
        return RefusingPath(self._path / part, self._refused)

    def __str__(self) -> str:
        return f"s3:/{self._path}"

    def __getattr__(self, name: str) -> Any:
        if name == self._refused:
            return self._refuse
        if name in ("open", "write_bytes"):  # object stores have no folders that would have to be there
            return self._write(name)
        return getattr(self._path, name)

    def _write(self, name: str) -> Any:
        def write(*how: Any) -> Any:
            if name == "write_bytes" or "w" in how[0]:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            return getattr(self._path, name)(*how)

        return write

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise BotoError("AccessDenied")

    def iterdir(self) -> Iterator[RefusingPath]:
        """List the folder."""
        return (RefusingPath(path, self._refused) for path in self._path.iterdir())

    # What fsspec's file system has

    @property
    def fs(self) -> RefusingPath:
        """The file system: this object, too."""
        return self

    @property
    def path(self) -> str:
        """The key."""
        return str(self._path)

    def invalidate_cache(self, key: str) -> None:
        """Forget nothing."""

    def cat_file(self, key: str, start: int, end: int | None = None) -> bytes:
        """Read an object, from its first byte."""
        assert start == 0
        if self._refused == "read_bytes":
            self._refuse()
        with Path(key).open("rb") as file:
            return file.read(-1 if end is None else end)

    def info(self, key: str) -> dict[str, str]:
        """Return that an object is there."""
        if not Path(key).exists():
            raise FileNotFoundError(key)
        return {"type": "file"}

    def pipe_file(self, key: str, data: bytes, mode: str = "overwrite") -> None:
        """Create an object, and its folder, which object stores do not have."""
        if self._refused == "write_bytes":
            self._refuse()
        Path(key).parent.mkdir(parents=True, exist_ok=True)
        with Path(key).open("xb" if mode == "create" else "wb") as file:
            file.write(data)

    def ls(self, key: str, detail: bool) -> list[dict[str, str]]:
        """List the folder as an object store does, in detail."""
        if self._refused == "ls":
            self._refuse()
        assert detail
        return [{"name": str(path), "type": "directory" if path.is_dir() else "file"} for path in Path(key).iterdir()]


class StorePath:
    """A path in an object store with a file system of fsspec's shape."""

    def __init__(self, fs: Any, path: str) -> None:
        self.fs, self.path = fs, path

    def __truediv__(self, part: str) -> StorePath:
        return StorePath(self.fs, f"{self.path}/{part}")

    def __str__(self) -> str:
        return f"s3://{self.path}"


def path_in(fs: Any, path: str = "bucket/groups") -> StoragePath:
    """Return a path in an object store."""
    return StorePath(fs, path)  # type: ignore[return-value]


def refuse_listing(monkeypatch: pytest.MonkeyPatch, folder: object) -> None:
    """Let a folder on a disk be one that this user may not list."""
    scandir = os.scandir

    def refusing(self: Any) -> Any:
        if self == folder:
            raise PermissionError(13, "denied")
        return scandir(self)

    monkeypatch.setattr(os, "scandir", refusing)
