"""A storage as of fsspec's plain file systems (SFTP, SMB, WebHDFS): ``exists`` answers no to any error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec import register_implementation  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]


class BusyStore(LocalFileSystem):  # type: ignore[misc]
    """Does not answer about paths that have ``busy`` in them."""

    protocol = "busy"
    cachable = False
    busy = "nothing"

    def info(self, path: Any, **how: Any) -> Any:
        """Return what there is at a path."""
        self._answer(path)
        return super().info(path, **how)

    def cat_file(self, path: Any, *how: Any, **more: Any) -> Any:
        """Return what is in a file."""
        self._answer(path)
        return super().cat_file(path, *how, **more)

    def ls(self, path: Any, *how: Any, **more: Any) -> Any:
        """Return what is in a folder."""
        self._answer(path)
        return super().ls(path, *how, **more)

    def _open(self, path: Any, *how: Any, **more: Any) -> Any:
        self._answer(path)
        return super()._open(path, *how, **more)

    def _answer(self, path: Any) -> None:
        if self.busy in str(path):
            raise ConnectionError("503 Service Unavailable")


def busy_store(folder: Path) -> tuple[BusyStore, Any]:
    """Return a store, and the path of a folder in it."""
    store = BusyStore()
    register_implementation("busy", BusyStore, clobber=True)
    conn_id = f"store{id(store)}"  # Airflow keeps the first one of each id
    attach(protocol="busy", conn_id=conn_id, fs=store)
    return store, ObjectStoragePath(f"busy://{conn_id}@{folder}")
