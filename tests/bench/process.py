"""A peer as a process of its own: started once, then told what to call, one JSON line after the other.

Its start is not timed. Peak memory and processor time are read from /proc, where there is one.
"""

import contextlib
import json
import os
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 120.0


class PeerError(Exception):
    """A peer that ended, said nothing in time, or gave a wrong answer."""


class PeerLostError(PeerError):
    """A peer that ended, or said nothing in time: another process of it may do better."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A peer's report of one call (python_peer.py), and the processor time that it took."""

    seconds: float
    read_seconds: float
    groups: int
    offsets: int
    checksum: int
    errors: int
    error: str = ""
    requests: int = 0
    cpu_seconds: float | None = None


class PeerProcess:
    """Run a peer until ``close()`` or the end of the ``with`` block.

    :param name: for messages and the log file.
    :param command: what to run; gets the bootstrap servers as its last argument.
    :param folder: where it runs.
    :param log: where its stderr goes.
    """

    def __init__(self, name: str, command: list[str], bootstrap: str, *, folder: Path, log: Path) -> None:
        self.name = name
        self._log = log
        self._buffer = b""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, bootstrap], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        try:
            self._read(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, operation: str, group_file: Path, timeout: float = CALL_TIMEOUT_S) -> Answer:
        """Make one call; raises ``PeerError`` when there is no answer."""
        assert self._process.stdin is not None
        before = cpu_seconds(self._process.pid)
        try:
            self._process.stdin.write(json.dumps({"op": operation, "groups": str(group_file)}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise PeerLostError(f"{self.name} has ended: {self._last_words()}") from exc
        said = self._read(timeout)
        after = cpu_seconds(self._process.pid)
        cpu = None if before is None or after is None else round(after - before, 3)
        return Answer(**said, cpu_seconds=cpu)

    def peak_mb(self) -> float | None:
        """Return the most memory the process has had, in MB (10^6 bytes); ``None`` where the system does not tell."""
        return peak_mb(self._process.pid)

    def close(self) -> None:
        """End the process; may be called twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise PeerLostError(f"{self.name} gave no answer within {timeout:g} s")
            data = os.read(descriptor, 65536)
            if not data:
                raise PeerLostError(f"{self.name} has ended: {self._last_words()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def peak_mb(pid: int) -> float | None:
    """Read a process's VmHWM."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return None


def cpu_seconds(pid: int) -> float | None:
    """Read how much processor time a process has had, all threads together."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None
