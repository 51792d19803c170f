"""A shell that is kept: what one command exports, the next one has."""

import base64
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

_END = "__the command has ended with__"
_STOP_TIMEOUT_S = 20.0
_UNTIL_THE_OWNER_ENDS = """trap '' TERM
(trap - TERM; {command}) </dev/null &
read -r _
kill -TERM 0; sleep 5; kill -KILL 0
"""
"""A pipe that ends with its owner, however that ends, is the sign to end the command and all that it has started."""


class Shell:
    """One bash, and what was started beside it.

    :param folder: where it begins.
    :param environment: all of its environment.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._beside: list[subprocess.Popen[bytes]] = []
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._beside:
            _end(process)
        _end(self._bash)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed. Raises EOFError if the shell itself ends."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{_END} %s\\n' \"$?\"\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(printed).removesuffix("\n")
            printed.append(line)
        raise EOFError(f"the shell has ended during: {command}")

    def start(self, command: str, log: Path) -> None:
        """Run a command beside the others until the end, with the variables that the shell has now."""
        _, variables = self.run("env -0 | base64 --wrap 0")
        entries = base64.b64decode(variables.strip()).decode().split("\0")
        environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", _UNTIL_THE_OWNER_ENDS.format(command=command)],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._beside.append(process)


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a process by the end of its input, and then all of its session by force."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
