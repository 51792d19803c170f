"""A local disk, which Python reads and writes by itself: where Hadoop, and so Spark, look for the files."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from airflow_kafka_groups.exceptions import first_line
from airflow_kafka_groups.storage import checksums, local_disk
from airflow_kafka_groups.storage.local_files import create_local, read_local
from airflow_kafka_groups.storage.storage import Storage

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


class LocalStorage(Storage):
    """A local disk.

    :param folder: where relative paths begin: the JVM's folder if there is one, wherever Python is by now. Default:
        this process's.
    """

    is_local: ClassVar[bool] = True

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path.cwd()

    def local(self, path: str) -> Path:
        """Return the path of a file as Hadoop understands it: ``..`` leads back through no link."""
        below = path.removeprefix(_scheme(path))
        if below.startswith("//"):
            host, _, below = below[2:].partition("/")
            if host:
                raise OSError(f"it is on a machine, {host}: write file:///… for this one")
            below = f"/{below.lstrip('/')}"
        return Path(os.path.normpath(self._folder / Path(below)))

    def direct(self, path: str) -> Path | None:
        """Return the path of a file of which Hadoop has no checksums to compare."""
        with self._named(f"{path} cannot be read"):
            here = self.local(path)
            return None if checksums.checksum_of(here).is_file() else here

    def _parent(self, path: str) -> str | None:
        here = self.local(path)
        return None if here.parent == here else f"{_scheme(path)}{here.parent}"

    def _folders(self, folder: str) -> list[str]:
        return local_disk.folders(self.local(folder))

    def _files(self, folder: str) -> list[str]:
        return local_disk.files(self.local(folder))

    def _files_below(self, folder: str) -> dict[tuple[str, str], int]:
        return local_disk.files_below(self.local(folder))

    def _read(self, path: str) -> bytes:
        here = self.local(path)
        content, beside = read_local(here), checksums.checksum_of(here)
        if beside.is_file():
            checksums.check(content, beside.read_bytes())
        return content

    def _columns(self, path: str) -> set[str]:
        return {*self._footer(path).schema.to_arrow_schema().names}

    def _rows(self, path: str) -> int:
        return int(self._footer(path).num_rows)

    def _footer(self, path: str) -> FileMetaData:
        import pyarrow as pa  # not every job needs it
        import pyarrow.parquet as pq

        try:
            return pq.read_metadata(self.local(path))
        except pa.ArrowException as exc:
            raise OSError(first_line(exc)) from exc

    def _exists(self, path: str) -> bool:
        return local_disk.is_there(self.local(path))

    def _written_at(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.local(path).stat().st_mtime, UTC)

    def _write(self, path: str, content: bytes, *, replace: bool) -> None:
        local_disk.write(self.local(path), content, replace=replace)

    def _create(self, path: str, content: bytes) -> None:
        create_local(self.local(path), content)

    def _create_whole(self, path: str, content: bytes, aside: str) -> bool:
        self._write(aside, content, replace=True)
        return local_disk.move(self.local(aside), self.local(path))

    def _delete(self, path: str, *, recursive: bool) -> None:
        local_disk.remove(self.local(path), recursive=recursive)


def _scheme(path: str) -> str:
    """Return what a path has before its first slash if it is that of local disks, in letters of whatever size."""
    return path[:5] if path[:5].lower() == "file:" else ""
