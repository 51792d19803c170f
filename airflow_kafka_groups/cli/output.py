"""The output of a command: data on stdout as a table, JSON or CSV; messages and progress bars for people on stderr."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from io import StringIO, TextIOWrapper
from types import SimpleNamespace
from typing import IO, Any, NamedTuple

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.shown import printable

Progress = Callable[[str, int, int], None]


def say(text: str) -> None:
    """Write a message for people. It may quote brokers and files: no terminal is to obey it.

    Where nobody reads on, or a signal comes amid another message, it is dropped: a deletion goes on and is recorded.
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


FORMATS = ("table", "json", "jsonl", "csv", "yaml")
_WIDEST = 200
"""The longest cell to whose end a column is padded."""


class Table(NamedTuple):
    """Rows of data, with the name that they have in JSON beside a summary.

    :param csv: the rows of its CSV, where that has no header and other columns. Default: the same.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]] = ()
    csv: Sequence[Sequence[Any]] | None = None

    @classmethod
    def of(cls, name: str, columns: Sequence[str], items: Iterable[object], csv: Any = None) -> Table:
        """Return a table of objects whose attributes are the columns."""
        return cls(name, columns, [[getattr(item, column) for column in columns] for item in items], csv)


def stdout_for(format: str) -> IO[str]:
    """Return stdout so that each group's id can be written to it.

    A locale may lack letters: people see their numbers then, and CSV is UTF-8. A closed one takes nothing.
    """
    if sys.stdout is None:
        return StringIO()
    if isinstance(sys.stdout, TextIOWrapper):
        if format == "csv":
            sys.stdout.reconfigure(encoding="utf-8")
        else:
            sys.stdout.reconfigure(errors="backslashreplace")
    return sys.stdout


class View(NamedTuple):
    """Which rows are shown, and in what order: by a column, perhaps with ``:desc`` behind it; at most so many."""

    sort: str | None = None
    limit: int | None = None

    def of(self, table: Table, format: str) -> Table:
        """Return the rows that are shown; refuse another column, and Kafka's own CSV."""
        if self == View():
            return table
        if table.csv is not None and format == "csv":  # a reset from a part of it would leave the rest as it is
            remedy = "leave them out: this CSV is for kafka-consumer-groups and reset --from-file, which need all of it"
            raise ConfigurationError("--sort, --limit", None, remedy)
        rows = list(table.rows)
        if self.sort is not None:
            name, _, order = self.sort.partition(":")
            if name not in table.columns or order not in ("", "desc"):
                raise ConfigurationError("--sort", self.sort, f"name one of {', '.join(table.columns)}, or with :desc")
            at = list(table.columns).index(name)
            known = [row for row in rows if row[at] is not None]
            known.sort(key=lambda row: row[at], reverse=order == "desc")
            rows = [*known, *(row for row in rows if row[at] is None)]
        return table._replace(rows=rows[: self.limit])


class Output:
    """Writes a command's result in one of ``FORMATS``."""

    def __init__(self, format: str, stream: IO[str]) -> None:
        self.format = format
        self._stream = stream
        self.view = View()
        self.record: str | None = None
        """Where a result that could not be written can be found, if somewhere; ``None`` when all is written."""

    def write(self, table: Table, summary: Mapping[str, Any] | None = None) -> None:
        """Write the rows; the summary is an object around them in JSON, and lines before them in a table.

        CSV has the rows only, and on a terminal their unprintable letters escaped. Raises ``OSError``.
        """
        self.record = None if summary is None else summary.get("record")
        table = self.view.of(table, self.format)
        match self.format:
            case "json":
                self._stream.write(f"{self._json(table, summary)}\n")
            case "jsonl":  # the rows only, each on its line
                lines = (json.dumps(dict(zip(table.columns, row, strict=True)), default=str) for row in table.rows)
                self._stream.writelines(f"{line}\n" for line in lines)
            case "csv":
                # Before Python 3.13, csv quotes only the characters of its own line end: if that is a line feed, a
                # carriage return in a group's id ends the line.
                lines_to = SimpleNamespace(write=lambda line: self._stream.write(line.removesuffix("\r\n") + "\n"))
                writer = csv.writer(lines_to)
                if table.csv is None:
                    writer.writerow(table.columns)
                shown = printable if self._stream.isatty() else str  # a terminal would obey what no program reads
                rows = table.rows if table.csv is None else table.csv
                writer.writerows([shown(_text(value, "")) for value in row] for row in rows)
            case "yaml":
                import yaml

                data = json.loads(self._json(table, summary))
                yaml.safe_dump(data, self._stream, allow_unicode=not self._stream.isatty(), sort_keys=False)
            case _:
                self._write_table(table, summary)
        self._stream.flush()
        self.record = None

    def clear(self) -> None:
        """Clear the terminal, if it is one, before the result is written again."""
        if self._stream.isatty():
            self._stream.write("\033[H\033[2J")

    def write_text(self, text: str) -> None:
        """Write a result that has one form only. Raises ``OSError``."""
        self._stream.write(text)
        self._stream.flush()

    @staticmethod
    def _json(table: Table, summary: Mapping[str, Any] | None) -> str:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        return json.dumps(rows if summary is None else {**summary, table.name: rows}, indent=1, default=str)

    def _write_table(self, table: Table, summary: Mapping[str, Any] | None) -> None:
        if summary:
            width = max(map(len, summary)) + 2
            self._stream.writelines(
                f"{name:<{width}}{printable(_text(value))}\n" for name, value in summary.items() if value != []
            )
            self._stream.write("\n" if table.rows else "")
        if table.rows or summary is None:
            # JSON and CSV have the digits that nobody reads.
            rows = [[f"{value:.1f}" if isinstance(value, float) else value for value in row] for row in table.rows]
            cells = [[printable(_text(value)) for value in row] for row in rows]
            self._stream.writelines(_aligned([[name.upper() for name in table.columns], *cells]))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    # One group's id may have 32,767 letters: it stands out of its column, or each of 200,000 lines is as long.
    columns = zip(*rows, strict=True)
    widths = [max((len(cell) for cell in column if len(cell) <= _WIDEST), default=0) for column in columns]
    line = "  ".join(f"{{:<{width}}}" for width in widths)
    return (line.format(*row).rstrip() + "\n" for row in rows)


def _text(value: Any, nothing: str = "-") -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value) if value is not True and value is not False else "yes" if value else "no"
    if value is None or value in ([], {}):
        return nothing
    if isinstance(value, list | tuple):
        return "; ".join(map(_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
