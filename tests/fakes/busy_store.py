"""An object store that does not answer about some paths."""

from pathlib import Path
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec import register_implementation  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]


class BusyStore(LocalFileSystem):  # type: ignore[misc]
    """Does not answer about paths that have ``busy`` in them."""

    protocol = ("busy", "abfs")  # creates a file by its condition
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

    def pipe_file(self, path: Any, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write a file; its folder comes with it."""
        self._answer(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)

    def ls(self, path: Any, *how: Any, **more: Any) -> Any:
        """Return what is in a folder."""
        self._answer(path)
        return super().ls(path, *how, **more)

    def rm_file(self, path: Any) -> None:
        """Remove a file, or what stands for a folder."""
        Path(path).rmdir() if Path(path).is_dir() else super().rm_file(path)

    def _open(self, path: Any, *how: Any, **more: Any) -> Any:
        self._answer(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
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
