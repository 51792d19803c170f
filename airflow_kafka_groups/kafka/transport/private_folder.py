"""Folders for files with secrets, which do not outlive the process that made them.

``with private_folder()`` removes its folder however the block is left, and two things do so after ``kill -9``:

1. A guard, a shell that waits for the end of a pipe from this process, and removes the folder then. It is in a session
   of its own, so what kills this process's group does not kill it.
2. Where the guard was killed too (a container out of memory), the next folder of the same user: each folder has a file
   that its process holds locked, and a folder whose lock is free is nobody's. A process id would not do: it may have
   been given to another process, or be of another container with the same ``/tmp``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "kafka-groups-private-"
_LOCK = ".lock"
_GUARD = 'trap "" HUP INT TERM; while read -r _; do :; done; rm -rf -- "$1"'


@contextmanager
def private_folder(*, guarded: bool = True) -> Iterator[Path]:
    """Provide a new folder that only this user can enter (mode 0700), and remove it afterwards.

    :param guarded: start the guard, and remove what dead processes left. Default true; without it, for files that are
        there for a moment only, the next guarded folder removes what a killed process left.
    """
    if guarded:
        remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = _lock(folder)
    guard = _start_guard(folder) if guarded else None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        if guard is not None:
            guard.kill()
            guard.communicate()


def remove_leftovers() -> None:
    """Remove the folders of this user whose processes are dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone, locked, or not ours
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            # A folder without a lock is being made right now.
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int:
    """Lock the folder for as long as this process lives. The lock has its name only when it is held."""
    making = folder / f"{_LOCK}-new"
    lock = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    making.rename(folder / _LOCK)
    return lock


def _start_guard(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the folder is an argument, not part of the script
        ["/bin/sh", "-c", _GUARD, "kafka-groups-guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
    )
