"""What people read on stderr: messages, warnings and progress bars. A bar is drawn on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from airflow_kafka_groups.shown import printable

Progress = Callable[[str, int, int], None]


def say(text: str) -> None:
    """Write a message for people. It may quote brokers and files: no terminal is to obey it.

    Where nobody reads on, as behind ``2>&1 | head``, or a signal comes amid another message, it is dropped: a deletion
    is completed and recorded all the same.
    """
    if (stream := sys.stderr) is None:  # print() would take stdout
        return
    try:
        print("\n".join(map(printable, text.split("\n"))), file=stream, flush=True)
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # what is left to be written would make Python's exit code 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a signal came amid another message
        return


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Provide a callback with (stage, done, total) that draws a bar for each stage; without a terminal, none."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        stages = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(stages[stage], completed=done, total=total)

        yield show
