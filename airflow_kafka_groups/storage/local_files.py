"""Local files that are created once and survive a power cut."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

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


def create_local(path: Path, data: bytes) -> None:
    """Create a file with this content, durably; of two writers exactly one succeeds.

    :param path: the file; missing folders are created.

    Raises ``FileExistsError`` if the file exists.
    """
    make_folder(path.parent)
    # A link appears with all of the content or not at all; open("xb") alone could leave a torn file after a crash.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_through(part, data)
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            _write_through(path, data)
    finally:
        with suppress(OSError):
            part.unlink()
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a local folder and its parents, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder_if_possible(folder.parent)


def sync_folder_if_possible(folder: Path) -> None:
    """Make the names in a local folder durable, unless its file system cannot, such as that of some network shares."""
    try:
        sync_folder(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in a local folder durable. Raises ``OSError`` where that is not possible."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unless_absent(path: Path, read: Callable[[], T]) -> T:
    """Return what is read of a path; where it is absent at first, by a second look.

    NFS remembers for up to a minute that a name was absent, also one that another machine has created since.

    Raises ``FileNotFoundError`` if it is absent, and what the reading raises.
    """
    try:
        return read()
    except FileNotFoundError:
        _look_anew(path.parent)
        return read()


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


def _write_through(path: Path, data: bytes) -> None:
    """Create a file, durably, or leave none: one that is torn, as on a full disk, would count as there for good.

    A file that could not be opened is not removed: it is somebody else's.
    """
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
