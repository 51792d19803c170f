"""One process of the lab, most often a JVM: start it, follow its log, kill it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.machine.java import find_java
from tests.lab.machine.reaper import Reaper
from tests.lab.machine.waiting import until

_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # a new topic's first seconds fill the log with these
    "-Dorg.slf4j.simpleLogger.log.kafka.server.ReplicaFetcherThread=error",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dlog4j2.loggers=",  # kafka 4.x looks at log4j2 as well, which has nothing to write to
    "-Dlog4j2.level=OFF",
)

# An archive that another Java has made is not used, and nothing is said about it.
QUIET_ARCHIVE = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgram:
    """A program to run: a main class of some jars, with its arguments and JVM options."""

    libs: Path
    main_class: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line; raises LabError when there is no usable Java."""
        archive = class_archive(self.libs)
        archived = (f"-XX:SharedArchiveFile={archive}", *QUIET_ARCHIVE) if archive.exists() else ()
        options = (*archived, *self.options, *_LOG_OPTIONS)
        return [find_java(), *options, "-cp", f"{self.libs}/*", self.main_class, *self.arguments]


def class_archive(libs: Path) -> Path:
    """Return where the archive of the classes in these jars is, or would be."""
    return libs.parent / "classes.jsa"


@dataclass(slots=True)
class LabProcess:
    """A running process whose output goes to a file, and whose end is certain once the owner has ended."""

    name: str
    log_path: Path
    process: subprocess.Popen[bytes]
    reaper: Reaper
    _released: bool = field(default=False, init=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; ``None`` while it runs."""
        return self.process.poll()

    def kill(self) -> None:
        """SIGKILL the process and wait for its end; does nothing when it has ended already."""
        self.process.kill()
        self._wait(None)

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM), and kill it when it has not after half a minute."""
        self.process.terminate()
        try:
            self._wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def wait_until(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Wait until the process is of use; raises LabError with the end of its log when it ends, or takes too long."""

        def why_not() -> str:
            return f"{self.name} did not come up. It logged:\n{self.log_tail()}"

        def is_over() -> None:
            if not self.is_running():
                raise LabError(why_not())

        until(is_ready, seconds, why_not, meanwhile=is_over)

    def log_tail(self, lines: int = 40) -> str:
        return tail(self.log_path, lines)

    def _wait(self, timeout: float | None) -> None:
        self.process.wait(timeout)
        if not self._released:
            self._released = True
            self.reaper.release(self.process.pid)


class Programs:
    """Running programs that share a folder. They and it are gone when this process is, however it ends."""

    def __init__(self, name: str) -> None:
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=f"akg-{name}-"))
        except OSError as exc:
            raise LabError(f"Cannot make a temporary folder for the data of {name} ({exc}). Free some space.") from exc
        self.processes: list[LabProcess] = []
        self._reaper = Reaper()
        self._reaper.watch_folder(str(self.folder))

    def start(self, name: str, command: list[str], folder: Path | None = None) -> LabProcess:
        """Start the command in this folder, by default that of all, with its output appended to ``<name>.log``."""
        folder = folder or self.folder
        log_path = folder / f"{name}.log"
        try:
            with log_path.open("ab") as log:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C must not kill brokers before their clients are done
                )
        except OSError as exc:
            raise LabError(f"Cannot start {name}: {exc}.") from exc
        self._reaper.watch(process.pid)
        self.processes.append(LabProcess(name, log_path, process, self._reaper))
        return self.processes[-1]

    def stop(self) -> None:
        """Kill all programs and remove the folder. May be called twice."""
        for each in self.processes:
            each.process.kill()  # all at once, then wait for each
        for each in self.processes:
            each.kill()
        self._reaper.close()


def tail(path: Path, lines: int) -> str:
    """Return the last ``lines`` lines of a file; empty when there is no such file."""
    if lines <= 0 or not path.is_file():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 400 * lines))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def run_tool(program: JavaProgram, *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a short program to its end and return what it printed; raises LabError when it takes too long."""
    try:
        return subprocess.run(
            program.command(), capture_output=True, text=True, timeout=timeout, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as exc:
        raise LabError(f"{program.main_class} did not end within {timeout:g} s.") from exc
