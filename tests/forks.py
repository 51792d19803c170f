"""A pytest plugin that runs tests in several processes, forked when all tests are collected: ``--processes N``.

pytest-xdist starts each of its processes from nothing, and each imports and collects everything: of the 63 seconds of
processor time of ``pytest tests/unit``, these were 20. A forked process has all of it already.

Each process takes some tests of one file at a time, and sends their reports to the first process, which shows and
counts them. A test whose process dies fails, and so does each one that was not run for that reason.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from inspect import iscoroutinefunction
from itertools import chain, groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

_AUTO = "auto"
_AT_ONCE = 16
"""The most tests that a process takes at once; a fixture of a module is set up anew for each time."""
_HERE = Path(__file__).parent
_QUICK = (_HERE / "unit", _HERE / "exhaustive")
_NUMBER_BYTES = 4
_BEGUN, _ENDED, _WARNING = "begun", "ended", "warning"
_PROCESSES_OF_A_PROCESSOR = 3
"""Half of the time, tests wait for the time-outs of the client: 30 s for tests/unit instead of 34 with two."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    what = "processes that run tests; auto: three for each processor for whole folders of quick tests, otherwise one"
    parser.getgroup("forks").addoption("--processes", metavar="N", default=_AUTO, help=f"{what} (default auto)")


def pytest_configure(config: pytest.Config) -> None:
    """Replace pytest's loop over the tests where more than one process is wanted. A debugger needs one process."""
    wanted = config.getoption("processes")
    try:
        count = _fitting(config) if wanted == _AUTO else int(wanted)
    except ValueError:
        raise pytest.UsageError(f"--processes must be a number or auto, not {wanted!r}") from None
    if count > 1 and hasattr(os, "fork") and not config.getoption("usepdb"):
        config.pluginmanager.register(_Loop(count), "forks-loop")


def _fitting(config: pytest.Config) -> int:
    """Return the number of processes; one for everything that has real programs beside it."""
    folders = [Path(config.invocation_params.dir, argument) for argument in config.args]
    if not all(folder.is_dir() and any(folder.is_relative_to(quick) for quick in _QUICK) for folder in folders):
        return 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors * _PROCESSES_OF_A_PROCESSOR


class _Loop:
    """The loop of the first process."""

    def __init__(self, count: int) -> None:
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests in other processes; leave it to pytest where nothing is to be run."""
        if session.testsfailed or session.config.getoption("collectonly") or not session.items:
            return None
        session.config.pluginmanager.getplugin("terminalreporter").showfspath = False  # tests of all files by turns
        queue, numbers = os.pipe()
        chunks = _chunks(session.items)
        os.write(numbers, b"".join(number.to_bytes(_NUMBER_BYTES) for number in range(len(chunks))))
        os.close(numbers)
        folder = session.config._tmp_path_factory  # type: ignore[attr-defined]  # each process gets one in the first's
        folder.getbasetemp()
        running: dict[Connection[Any, Any], int] = {}
        try:
            for name in range(min(self._count, len(chunks))):
                results, writer = Pipe(duplex=False)
                if not (process := _fork()):
                    _run_child(session, chunks, queue, writer, folder, f"process-{name}")
                writer.close()
                running[results] = process
            _show(session, running)
            gc.freeze()  # at its end pytest looks five times through all tests, and none has run in this process
        finally:
            for process in running.values():
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            os.close(queue)
        return True


def _chunks(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Spread those that wait (coroutines do) over the first two thirds: at the end, nothing would run beside them."""
    files = [list(of_file) for _, of_file in groupby(items, key=lambda item: item.path)]
    chunks = [file[start : start + _AT_ONCE] for file in files for start in range(0, len(file), _AT_ONCE)]
    waiting = [chunk for chunk in chunks if any(iscoroutinefunction(getattr(item, "obj", None)) for item in chunk)]
    others = [chunk for chunk in chunks if chunk not in waiting]
    placed = [(number / len(waiting) * 2 / 3, chunk) for number, chunk in enumerate(waiting)]
    placed += [(number / len(others), chunk) for number, chunk in enumerate(others)]
    return [chunk for _, chunk in sorted(placed, key=itemgetter(0))]


def _fork() -> int:
    with warnings.catch_warnings():  # Arrow's and NumPy's threads survive it
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _show(session: pytest.Session, running: dict[Connection[Any, Any], int]) -> None:
    """Show and count what the processes report, until all have ended. Takes those out that have."""
    items = {item.nodeid: item for item in session.items}
    begun: dict[Connection[Any, Any], str] = {}
    hook = session.config.hook
    while running:
        for results in wait(list(running)):
            assert isinstance(results, Connection)
            try:
                kind, *message = results.recv()
            except EOFError:
                _, status = os.waitpid(running.pop(results), 0)
                if status:
                    ended = os.waitstatus_to_exitcode(status)
                    _fail(session, items.pop(begun[results]), f"the process of this test ended with {ended}")
                continue
            if kind == _BEGUN:
                (begun[results],) = message
            elif kind == _WARNING:
                hook.pytest_warning_recorded.call_historic(kwargs=message[0])
            else:
                _log(session, items.pop(begun[results]), message[0])
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    for item in items.values():
        _fail(session, item, "it was not run, since the process that had taken it ended before")


def _fail(session: pytest.Session, item: pytest.Item, why: str) -> None:
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
    _log(session, item, [session.config.hook.pytest_report_to_serializable(config=session.config, report=report)])


def _log(session: pytest.Session, item: pytest.Item, reports: Sequence[dict[str, Any]]) -> None:
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for data in reports:
        hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=data))
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _run_child(
    session: pytest.Session,
    chunks: Sequence[Sequence[pytest.Item]],
    queue: int,
    results: Connection[Any, Any],
    folder: Any,
    name: str,
) -> None:
    """Run tests until none is left, and end this process: what the first one cleans up at its end is not this one's."""
    status = 1
    try:
        folder._basetemp = folder.getbasetemp() / name
        folder._basetemp.mkdir()
        capture = session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are those of all processes
        capture.start_global_capturing()
        capture.suspend_global_capture()
        session.config.pluginmanager.register(_Reporter(results), "forks-reporter")
        for item, following in pairwise(chain(_taken(chunks, queue), [None])):
            assert item is not None
            results.send((_BEGUN, item.nodeid))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        status = 0
    except KeyboardInterrupt:
        pass  # the first process shows it
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(status)


def _taken(chunks: Sequence[Sequence[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    while number := os.read(queue, _NUMBER_BYTES):
        yield from chunks[int.from_bytes(number)]


class _Reporter:
    """What runs a test in a forked process, and sends what is to be shown of it."""

    def __init__(self, results: Connection[Any, Any]) -> None:
        self._results = results

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test."""
        hook = item.config.hook
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        sent = [hook.pytest_report_to_serializable(config=item.config, report=report) for report in reports]
        self._results.send((_ENDED, sent))
        return True

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Send a warning. Its object may be one that cannot be sent."""
        of = warning_message
        shown = warnings.WarningMessage(str(of.message), of.category, of.filename, of.lineno)
        about = {"warning_message": shown, "when": when, "nodeid": nodeid, "location": None}
        self._results.send((_WARNING, about))
