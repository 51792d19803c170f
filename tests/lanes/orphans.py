"""Run a command and adopt what it leaves behind, so that the processor time of all its programs is counted.

``python tests/lanes/orphans.py <command> …`` ends as the command does. A program whose parent has ended, such as the
JVM of a Spark session, becomes a child of this process, which waits for it: who waits for this one with ``wait4`` gets
the processor time of all of them. Standard library only; orphans are counted on Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

PATIENCE_S = 10.0
"""How long orphans may take to end: reapers have brokers and folders to remove."""
_POLL_S = 0.05
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # of prctl


def run(command: list[str]) -> int:
    """Run the command, end what is left in this process group, and wait for the other orphans. Return the exit code."""
    _control(_SET_CHILD_SUBREAPER, 1)
    forwarded = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}

    def prepare() -> None:
        for number, before in forwarded.items():  # signals are for the command, which is in the same group
            signal.signal(number, signal.SIG_IGN if before is signal.SIG_IGN else signal.SIG_DFL)
        _control(_SET_PDEATHSIG, signal.SIGKILL)

    with subprocess.Popen(command, preexec_fn=prepare) as process:
        code = process.wait()
    os.killpg(os.getpgrp(), signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(ChildProcessError):  # none is left
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_POLL_S)
    return code


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main() -> int:
    """Run the command of the command line; a signal that ends it ends this process too."""
    code = run(sys.argv[1:])
    if code >= 0:
        return code
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code  # the system ignores some signals


if __name__ == "__main__":
    sys.exit(main())
