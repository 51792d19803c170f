"""Where tests put what they throw away: in memory, where there is room, since each fsync waits for a disk.

Standard library only.
"""

import os
import shutil
import tempfile
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 * 2**30
"""Several times what a complete ``make test`` needs."""


def memory_folder(folder: Path = SHARED_MEMORY, *, room: int = ROOM_BYTES) -> str | None:
    """Return a folder in memory, or ``None`` where there is none, too little room, or programs may not run from it."""
    try:
        free = shutil.disk_usage(folder).free
        may_not_run = os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError:
        return None
    return str(folder) if free >= room and not may_not_run and os.access(folder, os.W_OK | os.X_OK) else None


def use_memory() -> None:
    """Let this process and its children put temporary files into memory, unless the user has said where with TMPDIR."""
    folder = memory_folder()
    if folder and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = None  # it is looked up again
