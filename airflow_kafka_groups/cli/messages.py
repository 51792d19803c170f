"""What people read on stderr: messages, warnings and progress bars. A bar is drawn on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_kafka_groups.maintenance.shown import printable

Progress = Callable[[str, int, int], None]


def say(text: str) -> None:
    """Write a message for people. It may quote brokers and files: no terminal is to obey it.

    Where nobody reads on, as behind ``2>&1 | head``, it is dropped: a deletion is completed and recorded all the same.
    """
    try:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # for what else is written there, too


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Provide a callback with (stage, done, total) that draws a bar for each stage; without a terminal, none."""
    if not sys.stderr.isatty():
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
