"""The one storage: eight verbs over files on local disks, NFS, S3, GCS and Azure; Spark puts Hadoop's behind them.

Decisions about deletions rest on these files (journal, approvals, backups), so three things hold that ``pathlib`` and
fsspec do not promise by themselves:

- A creation is exclusive: of two writers exactly one succeeds. On a disk by a hard link, on object stores by their own
  condition (``If-None-Match`` on S3 and Azure, ``ifGenerationMatch=0`` on GCS).
- What was created or replaced on a disk is complete and durable when the call returns: file and folder are fsynced.
- Only "not found" means absent. Every other error of a storage, whatever its class, is a ``StorageError`` that names
  the path; so is a 404 that does not say what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, StorageError
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.disk import DISK, is_checksum
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.object_store import OBJECTS
from airflow_kafka_groups.storage.paths import is_id

T = TypeVar("T")
Names = list[str]


class Backend(Protocol):
    """What the storages do differently, by their own paths. What is absent raises ``FileNotFoundError``."""

    def create(self, path: Any, data: bytes, *, durable: bool = True) -> None:
        """Create a complete file and its folders, or raise ``FileExistsError``."""

    def read(self, path: Any, start: int | None, end: int | None) -> bytes:
        """Read a file, or a part of it."""

    def replace(self, path: Any, parts: Iterable[bytes]) -> bool:
        """Write a complete file and its folders, and return whether it has what was written."""

    def list(self, folder: Any) -> dict[str, set[bool]]:
        """Return what is in a folder, sorted by name, each with whether it is a folder."""

    def sizes_below(self, folder: Any) -> dict[tuple[str, str], int]:
        """Return the sizes of all files in the folders of a folder by (their folder's name, name)."""

    def is_file(self, path: Any) -> bool:
        """Return whether there is a file."""

    def is_folder(self, path: Any) -> bool:
        """Return whether there is a folder."""

    def describe(self, path: Any) -> tuple[int, datetime]:
        """Return a file's size, and when it was written."""

    def remove(self, path: Any) -> None:
        """Remove a file."""

    def remove_folder(self, folder: Any, *, everything: bool) -> None:
        """Remove a folder, and with ``everything`` also what is in it."""

    def sync(self, path: Any) -> None:
        """Make a file and its name durable."""


class FileStatus(NamedTuple):
    """What a storage knows of a file; the time is by its own clock."""

    size: int
    written_at: datetime


class Storage:
    """Eight verbs over files: create exclusively, read, replace, list, exists, remove, sync, describe.

    Each takes a path of ``pathlib`` or Airflow, or a string if there is a backend for strings, and raises
    ``StorageError`` that names it.

    :param backend: whose files strings name. Default: none; ``FILES`` is such a storage.
    :param at: returns the backend's path of a string.
    """

    def __init__(self, backend: Backend | None = None, at: Callable[[str], Any] = str) -> None:
        self._backend, self._at = backend, at

    @property
    def is_local(self) -> bool:
        """Whether strings name files on a local disk."""
        return self._backend is DISK

    @contextmanager
    def _on(
        self, what: str, path: StoragePath | str, *absence: type[FileNotFoundError]
    ) -> Iterator[tuple[Backend, Any]]:
        """Return the backend of a path, and its own path. Whatever is raised inside is ``StorageError``.

        :param what: what is done with the path, for the message, and ``absence`` what is no error.
        """
        with storage_errors(what, path), suppress(*absence):
            if isinstance(path, str) and self._backend is not None:
                yield self._backend, self._at(path)
            else:
                yield (DISK if isinstance(path, Path) else OBJECTS), path

    def create(self, path: StoragePath | str, data: bytes, *, durable: bool = True) -> None:
        """Create a file with this content, and read it back. Nobody sees a part of it.

        A file that exists with the same content counts as created: the answer to an earlier try may have been lost.

        :param durable: whether a disk's file survives a power cut, and is read back. Default true; false where it can
            be made again, and whoever reads it can tell.

        Raises ``FileExistsAlreadyError`` when it exists with other content, and ``StorageError`` when the storage fails
        or returns other bytes than were written.
        """
        with self._on("created", path) as (backend, place):
            try:
                backend.create(place, data, durable=durable)
            except FileExistsError as exc:
                there = self.read(path)
                if there == data:
                    if durable:
                        self.sync(path)  # whoever wrote it may not have come to that
                    return
                if there is None:
                    raise StorageError(
                        f"{path} could not be created: the storage says that it exists, and does not have it ({exc})"
                    ) from exc
                raise FileExistsAlreadyError(f"{path} exists with other content; it is never overwritten") from None
        if durable and self.read(path) != data:
            raise StorageError(f"{path} does not hold what was written to it: check the storage, then run again")

    def read(self, path: StoragePath | str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the content of a file, ``None`` only if the storage says that there is no such file.

        :param start: where to begin, and ``end`` where to end. Default: all of it.
        """
        with self._on("read", path, FileNotFoundError) as (backend, place):
            return backend.read(place, start, end)
        return None

    def replace(self, path: StoragePath | str, data: bytes | Iterable[bytes]) -> None:
        """Write a file, atomically, and verify it by reading it back.

        :param data: the content, or its parts: on a disk, one at a time is in memory.
        """
        with self._on("written", path) as (backend, place):
            same = backend.replace(place, [data] if isinstance(data, bytes) else data)
        if not same:
            raise StorageError(f"{path} differs from what was written: check the storage, then run again")

    def list(self, folder: StoragePath | str) -> dict[str, set[bool]]:
        """Return the sorted names in a folder, none if the storage says that there is no such folder.

        Each with whether it is a folder: in an object store it can be both. A store may list late: a name that is
        missing here may exist.
        """
        with self._on("listed", folder, FileNotFoundError) as (backend, place):
            return backend.list(place)
        return {}

    def names(self, folder: StoragePath | str) -> Names:
        """Return the sorted names in a folder; see ``list``."""
        return [*self.list(folder)]

    def files(self, folder: StoragePath | str) -> Names:
        """Return the sorted names of the files in a folder, without Hadoop's checksums."""
        return [name for name, kinds in self.list(folder).items() if False in kinds and not is_checksum(name)]

    def folders(self, folder: StoragePath | str) -> Names:
        """Return the sorted names of the folders in a folder."""
        return [name for name, kinds in self.list(folder).items() if True in kinds]

    def ids(self, folder: StoragePath | str) -> Names:
        """Return the ids that JSON files in a folder are named by, oldest first; see ``list``."""
        stems = (name.removesuffix(".json") for name in self.list(folder) if name.endswith(".json"))
        return [*filter(is_id, stems)]

    def sizes_below(self, folder: StoragePath | str) -> dict[tuple[str, str], int]:
        """Return the sizes of all files in the folders of a folder by (their folder's name, name)."""
        with self._on("listed", folder, FileNotFoundError) as (backend, place):
            return backend.sizes_below(place)
        return {}

    def is_file(self, path: StoragePath | str) -> bool:
        """Return whether a file exists, also one that is not regular."""
        with self._on("looked for", path) as (backend, place):
            return backend.is_file(place)

    def exists(self, path: StoragePath | str) -> bool:
        """Return whether a file or folder exists. Not as fsspec does it: there, any error is an absence."""
        with self._on("looked for", path) as (backend, place):
            return backend.is_file(place) or backend.is_folder(place)

    def remove(self, path: StoragePath | str) -> None:
        """Remove a file; one that is gone counts as removed."""
        with self._on("removed", path, FileNotFoundError) as (backend, place):
            backend.remove(place)

    def remove_folder(self, folder: StoragePath | str, *, everything: bool = False) -> None:
        """Remove a folder; one that is gone counts as removed.

        :param everything: whether also what is in it. Default false: then what somebody else put into it stays, and is
            an error.
        """
        with self._on("removed", folder, FileNotFoundError) as (backend, place):
            backend.remove_folder(place, everything=everything)

    def sync(self, path: StoragePath | str) -> None:
        """Make a local file and its name durable; object stores do this themselves."""
        with self._on("made durable", path) as (backend, place):
            backend.sync(place)

    def describe(self, path: StoragePath | str) -> FileStatus:
        """Return a file's size, and when it was written."""
        with self._on("looked for", path) as (backend, place):
            return FileStatus(*backend.describe(place))

    def read_bytes(self, path: StoragePath | str) -> bytes:
        """Read a file that must exist."""
        if (content := self.read(path)) is None:
            raise StorageError(f"{path} could not be read: there is no such file")
        return content

    def read_text(self, path: StoragePath | str) -> str:
        """Read a small file that must exist."""
        with storage_errors("read", path):
            return self.read_bytes(path).decode()

    def read_many(self, paths: Sequence[str], *, skip_unreadable: bool = False) -> tuple[bytes, ...]:
        """Read many small files, several at once, in the order of their paths.

        :param skip_unreadable: return nothing for a file that cannot be read, instead of raising.
        """

        def read(path: str) -> bytes:
            with suppress(*([StorageError] if skip_unreadable else [])):
                return self.read_bytes(path)
            return b""

        return tuple(read_all(read, paths))

    def is_exclusive(self, probe: StoragePath) -> bool:
        """Return whether the storage refuses to create a file that exists, as asked to, and does not replace it.

        :param probe: a file for this question only. It is created if it does not exist, and stays.
        """
        try:
            self.create(probe, b"one")  # refused at once if it has what a storage left that has been mended since
            self.create(probe, b"two")
        except FileExistsAlreadyError:
            return True
        return False

    def require_writable(self, folder: StoragePath) -> None:
        """Raise ``StorageError`` if files cannot be created in a folder on a disk, or one that is yet to be made.

        Nothing is written. A call asks this before work that would be lost. What object stores allow only a write
        shows.
        """
        if (local := self.local(folder)) is None:
            return
        with storage_errors("examined", folder):
            existing = next(path for path in (local, *local.parents) if path.exists())
            if not existing.is_dir():
                raise StorageError(
                    f"{folder} cannot be written: {existing} is not a folder; choose another storage path"
                )
            if not os.access(existing, os.W_OK | os.X_OK):
                raise StorageError(
                    f"{folder} cannot be written: this user may create nothing in {existing}; give it write access, or "
                    "choose another storage path"
                )

    def local(self, path: StoragePath | str) -> Path | None:
        """Return the path on a local disk, ``None`` for an object store."""
        with self._on("read", path) as (backend, place):
            return place if backend is DISK else None


FILES = Storage()
"""The files of Airflow's tasks: their paths are of ``pathlib`` or Airflow."""


class LocalStorage(Storage):
    """A local disk.

    :param folder: where relative paths begin: the JVM's folder if there is one, wherever Python is by now. Default:
        this process's.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(DISK, self._local)
        self._folder = folder or Path.cwd()

    def _local(self, path: str) -> Path:
        """Return the path of a file as Hadoop understands it: ``..`` leads back through no link."""
        below = path[5:] if path[:5].lower() == "file:" else path
        if below.startswith("//"):
            host, _, below = below[2:].partition("/")
            if host:
                raise OSError(f"it is on a machine, {host}: write file:///… for this one")
            below = f"/{below.lstrip('/')}"
        return Path(os.path.normpath(self._folder / Path(below)))


def storage_below(folder: StoragePath, text: str) -> Storage:
    """Return the storage of an object store's files below a folder.

    :param text: what a job calls the folder: the beginning of each path.
    """
    root = text.rstrip("/")

    def at(path: str) -> StoragePath:
        below = path.removeprefix(root)
        if below == path or below[:1] not in ("", "/"):
            raise OSError(f"it is not below {root}")
        place = folder
        for part in filter(None, below.split("/")):
            place /= part
        return place

    return Storage(OBJECTS, at)


READERS = 8
_AT_ONCE = 2 * READERS


def read_all(function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """Call a function for many arguments, several at once: an object store takes its time for each."""
    if len(arguments[0]) < READERS:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, *arguments))


def read_few(function: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """Call a function for many arguments, as ``read_all``; but few of its results are there at once."""
    for start in range(0, len(arguments[0]), _AT_ONCE):
        yield from read_all(function, *(some[start : start + _AT_ONCE] for some in arguments))
