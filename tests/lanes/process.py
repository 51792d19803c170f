"""Run one lane: its commands one after the other, in a process group of their own, with the output in a file."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.lab.machine.reaper import Reaper
from tests.lab.machine.scratch import memory_folder
from tests.lanes.lane import Lane


class LaneProcess:
    """A lane that runs.

    Ctrl-C in a terminal reaches only the runner, which decides what to do; and whatever happens to the runner, the
    reaper kills the lanes, whose own reapers then kill their brokers. Each lane has a temporary folder of its own, so
    that a test that looks for leftovers finds those of its own lane only; that of a lane that passes is removed.

    :param folder: where ``<lane>.log`` is written.
    """

    def __init__(self, lane: Lane, *, root: Path, folder: Path, reaper: Reaper) -> None:
        self.lane = lane
        self.log = folder / f"{lane.name}.log"
        self.ended_after: float | None = None
        self._root = root
        self._reaper = reaper
        self._commands = list(lane.commands)
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None
        self._temporary = tempfile.mkdtemp(prefix=f"lane-{lane.name}-", dir=os.environ.get("TMPDIR") or memory_folder())
        self._started = time.monotonic()
        self.log.unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """Seconds since the start, or until the end."""
        return time.monotonic() - self._started if self.ended_after is None else self.ended_after

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def poll(self) -> int | None:
        """Return the exit code, or ``None`` while there is something to do. Starts the next command when one ended."""
        while self._exit_code is None:
            if self._process is None:
                self._start(self._commands.pop(0))
            code = self._reap()
            if code is None:
                return None
            if code != 0 or not self._commands:
                self._exit_code, self.ended_after = code, self.seconds
                if code == 0:
                    shutil.rmtree(self._temporary, ignore_errors=True)
        return self._exit_code

    def interrupt(self) -> None:
        """Ask everything in the lane to end, as Ctrl-C does: tests then stop their brokers and browsers."""
        self._commands.clear()
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._commands.clear()
        self._signal(signal.SIGKILL)

    def _start(self, command: tuple[str, ...]) -> None:
        environment = os.environ | {"TMPDIR": self._temporary} | dict(self.lane.environment)
        nice = ("nice", "-n", str(self.lane.nice)) if self.lane.nice else ()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*nice, *command],
                cwd=self._root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._reaper.watch(self._process.pid)

    def _reap(self) -> int | None:
        """Return the exit code of the command that runs, once it has ended; what is left in its group ends, too."""
        assert self._process is not None
        pid = self._process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self._signal(signal.SIGTERM)  # nobody else can have its id before it is waited for
        code = self._process.wait()
        self._reaper.release(pid)
        self._process = None
        return code

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
