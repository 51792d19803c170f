"""A storage as of sshfs, by which Airflow reaches SFTP, as it was seen with a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec import register_implementation  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]


class SftpStore(LocalFileSystem):  # type: ignore[misc]
    """Drops the condition of a creation and the range of a reading, and has no code for "exists"."""

    protocol = "sftp"
    cachable = False

    def pipe_file(self, path: str, data: bytes, chunksize: int = 1, **_: Any) -> None:
        """Write a file, whatever is there."""
        Path(path).write_bytes(data)

    def cat_file(self, path: str, **_: Any) -> bytes:
        """Read all of a file."""
        return Path(path).read_bytes()

    def _open(self, path: str, mode: str = "rb", **how: Any) -> Any:
        try:
            return super()._open(path, mode, **how)
        except FileExistsError:
            raise OSError("Failure") from None


def sftp_store(folder: Path) -> Any:
    """Return the path of a folder in a store."""
    store = SftpStore()
    register_implementation("sftp", SftpStore, clobber=True)
    conn_id = f"sftp{id(store)}"  # Airflow keeps the first one of each id
    attach(protocol="sftp", conn_id=conn_id, fs=store)
    return ObjectStoragePath(f"sftp://{conn_id}@{folder}")
