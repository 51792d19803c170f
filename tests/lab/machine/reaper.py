"""Kill the lab's processes and remove its folders when their owner is gone, however it went.

Runs as a script of its own (stdlib only), told over stdin what to look after; the end of stdin is the owner's end,
also when that was SIGKILL. PR_SET_PDEATHSIG would not do: it fires when the starting *thread* ends.

One command a line: ``+pid``  ``-pid``  ``dir <path>``.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable


def serve(lines: Iterable[str]) -> None:
    """Take commands until they end, then kill every process and remove every folder still on the list."""
    pids: set[int] = set()
    folders: set[str] = set()
    for line in lines:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "dir":
            folders.add(rest)
        elif verb.startswith("+"):
            pids.add(int(verb))
        elif verb.startswith("-"):
            pids.discard(-int(verb))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


class Reaper:
    """The owner's end of a reaper process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C in the owner's terminal is the owner's to handle
        )

    def watch(self, pid: int) -> None:
        """Kill this process at the owner's end."""
        self._tell(f"+{pid}")

    def release(self, pid: int) -> None:
        """Forget a process that has ended, since its id may be given to another."""
        self._tell(f"-{pid}")

    def watch_folder(self, path: str) -> None:
        """Remove this folder at the owner's end."""
        self._tell(f"dir {path}")

    def close(self) -> None:
        """Let the reaper do what is left on its list, and wait for its end."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(sys.stdin)
