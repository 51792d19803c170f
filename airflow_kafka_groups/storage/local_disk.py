"""Local disks without the JVM: Hadoop starts a process for each local file, for its permissions.

What Hadoop keeps beside a file that it wrote, its checksums, is no file of its own here either, and goes with the file:
Hadoop, and so Spark, would compare them with whatever has that name later.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from airflow_kafka_groups.storage.checksums import checksum_of


def folders(folder: Path) -> list[str]:
    """Return the sorted names of the folders in a folder; none if it does not exist."""
    return sorted(entry.name for entry in _entries(folder) if entry.is_dir())


def files(folder: Path) -> list[str]:
    """Return the sorted names of the files in a folder, and that of a file; none if it does not exist."""
    return sorted(entry.name for entry in _files(folder))


def files_below(folder: Path) -> dict[tuple[str, str], int]:
    """Return the sizes of the files in a folder and in its folders, by (their folder's name, name)."""
    every = (folder, *(Path(entry.path) for entry in _entries(folder) if entry.is_dir()))
    sizes = {}
    for inner in every:
        for entry in _files(inner):
            with suppress(FileNotFoundError):  # another program has deleted it by now
                sizes[inner.name, entry.name] = entry.stat().st_size
    return sizes


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder):
        if entry.is_file() and not (entry.name.startswith(".") and entry.name.endswith(".crc")):
            yield entry


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it does not exist, and a file itself, as Hadoop does.

    To ask an entry what it is raises its errors; a ``Path`` takes some for "it is not there", and from Python 3.14 all.
    """
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return [entry for entry in _entries(folder.parent) if entry.name == folder.name]


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists."""
    with suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
        return True
    return False


def write(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file, and the folders that it is in. Without ``replace``, raise ``FileExistsError`` if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb" if replace else "xb") as file:
        checksum_of(path).unlink(missing_ok=True)
        file.write(content)


def move(path: Path, target: Path) -> bool:
    """Move a file and create the target's folder; return whether it was moved: an existing target stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return False
    checksum_of(target).unlink(missing_ok=True)
    return shutil.move(path, target) == target  # a link may lead to another disk


def remove(path: Path, *, recursive: bool) -> None:
    """Remove what there is of a file or folder. Of a link, what it leads to stays."""
    if path.is_symlink() or not path.is_dir():
        checksum_of(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    elif not recursive:
        path.rmdir()
    while recursive and is_there(path):
        with suppress(FileNotFoundError):  # another job removes it, too
            shutil.rmtree(path)
