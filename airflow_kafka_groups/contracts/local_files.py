"""Local files that are created once and survive a power cut."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


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
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a local folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
