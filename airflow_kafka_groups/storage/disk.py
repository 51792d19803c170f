"""Files on local disks and on shares that are mounted: complete, durable, and with Hadoop's checksums beside them.

Hadoop starts a process for each local file, for its permissions; Python reads and writes disks by itself. What Hadoop
keeps beside a file that it wrote, its checksums, goes with the file: Hadoop, and so Spark, would compare them with
whatever has that name later.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.access import EXCLUSIVE_REMEDY

T = TypeVar("T")

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
LARGEST = 4 << 20
"""The most bytes that are read of a file of settings or rules."""


def read_local(path: Path, start: int = 0, most: int | None = None, *, may_be_pipe: bool = False) -> bytes:
    """Read a regular file. Whoever may name one could name a device without an end, or a pipe that nobody writes to.

    :param start: where to begin, and ``most`` the largest number of bytes to return. Default: all of it.
    :param may_be_pipe: whether anything that ends may be read: a shell has pipes for files. Default false.

    Raises ``OSError``, also for what is no regular file.
    """
    if not may_be_pipe and not (stat.S_ISREG(mode := path.stat().st_mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a device or a pipe: name a regular file", str(path))
    if most is None and not start:
        return path.read_bytes()
    with path.open("rb") as file:
        if start:
            file.seek(start)
        return file.read(-1 if most is None else most)


def make_folder(path: Path, *, durable: bool = True) -> None:
    """Create a local folder and its parents, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        if durable:
            _sync_folder(folder.parent)


class Disk:
    """The files of this machine, by ``pathlib.Path``; see ``Backend``."""

    def create(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """Create a file and missing folders. A link appears with all of the content, or not at all."""
        make_folder(path.parent, durable=durable)
        with _part_of(path) as part:
            _write(part, [data], durable=durable)
            if not path.exists():
                checksum_of(path).unlink(missing_ok=True)
            try:
                os.link(part, path)
            except OSError as exc:
                if exc.errno not in _NO_LINKS:
                    raise
                raise StorageError(f"{path} cannot be created exclusively ({exc}). {EXCLUSIVE_REMEDY}") from exc
        if durable:
            _sync_folder(path.parent)

    def read(self, path: Path, start: int | None, end: int | None) -> bytes:
        return _unless_absent(path, lambda: read_local(path, start or 0, None if end is None else end - (start or 0)))

    def replace(self, path: Path, parts: Iterable[bytes]) -> bool:
        make_folder(path.parent)
        with _part_of(path) as part:
            written = _write(part, parts, durable=True)
            checksum_of(path).unlink(missing_ok=True)
            part.replace(path)
            _sync_folder(path.parent)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest() == written

    def list(self, folder: Path) -> dict[str, set[bool]]:
        """Return what is in a folder. To ask an entry what it is raises its errors; a ``Path`` takes some for "no"."""
        return {entry.name: {entry.is_dir()} for entry in _unless_absent(folder, lambda: _entries(folder))}

    def sizes_below(self, folder: Path) -> dict[tuple[str, str], int]:
        sizes = dict[tuple[str, str], int]()
        outer = _unless_absent(folder, lambda: _entries(folder))
        for inner in (folder, *(Path(entry.path) for entry in outer if entry.is_dir())):
            with suppress(FileNotFoundError):
                for entry in _entries(inner):
                    if entry.is_file() and not is_checksum(entry.name):
                        with suppress(FileNotFoundError):  # another program has deleted it by now
                            sizes[inner.name, entry.name] = entry.stat().st_size
        return sizes

    def is_file(self, path: Path) -> bool:
        return self._mode(path, lambda mode: not stat.S_ISDIR(mode))

    def is_folder(self, path: Path) -> bool:
        return self._mode(path, stat.S_ISDIR)

    def _mode(self, path: Path, is_asked_for: Callable[[int], bool]) -> bool:
        try:
            return is_asked_for(_unless_absent(path, path.stat).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def describe(self, path: Path) -> tuple[int, datetime]:
        found = path.stat()
        return found.st_size, datetime.fromtimestamp(found.st_mtime, UTC)

    def remove(self, path: Path) -> None:
        checksum_of(path).unlink(missing_ok=True)
        path.unlink()

    def remove_folder(self, folder: Path, *, everything: bool) -> None:
        """Remove a folder. Of a link, what it leads to stays."""
        if not everything:
            folder.rmdir()
        elif folder.is_symlink() or not folder.is_dir():
            self.remove(folder)
        while everything and self.is_folder(folder):
            with suppress(FileNotFoundError):  # another job removes it, too
                shutil.rmtree(folder)

    def sync(self, path: Path) -> None:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        _sync_folder(path.parent)


DISK = Disk()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Remove what is written before it has its name: on a full disk, each try would leave as much as there is room."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


def _write(path: Path, parts: Iterable[bytes], *, durable: bool) -> bytes:
    """Write a file before it gets its name, and return its digest: a power cut could leave the name alone."""
    written = hashlib.sha256()
    with path.open("xb") as file:
        for data in parts:
            file.write(data)
            written.update(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    return written.digest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unless_absent(path: Path, look: Callable[[], T]) -> T:
    """Return what is read of a path; where it is absent at first, by a second look.

    NFS remembers for up to a minute that a name was absent, also one that another machine has created since.
    """
    try:
        return look()
    except FileNotFoundError:
        _look_anew(path.parent)
        return look()


def _look_anew(folder: Path) -> None:
    """Open a folder: then a network file system asks its server about what is in it."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except FileNotFoundError:  # which may only be remembered, too
        if folder.parent != folder:
            _look_anew(folder.parent)
            with suppress(OSError):
                os.close(os.open(folder, os.O_RDONLY))
    except OSError:  # the reading itself shows what is wrong
        pass


def checksum_of(path: Path) -> Path:
    """Return the path of Hadoop's checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def is_checksum(name: str) -> bool:
    """Return whether a file has Hadoop's checksums of another one, by its name."""
    return name.startswith(".") and name.endswith(".crc")
