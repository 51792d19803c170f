"""Wait for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT_S = 60


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def is_gone(pid_file: Path) -> bool:
    """Return whether the process whose id is in the file has ended; its parent may not have noticed."""
    try:
        stat = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"
