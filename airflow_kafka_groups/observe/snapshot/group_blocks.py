"""The rows of a snapshot or a backup as they are read: blocks of columns that hold whole groups.

A file can have very many rows, and a group's rows can lie in two batches of it. Readers decide about whole groups, so
the rows of a batch's last group wait for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from airflow_kafka_groups.observe.fingerprint import fingerprints
from airflow_kafka_groups.storage.arrow_values import column, repeat

BATCH_ROWS = 32_768
"""The number of rows to read or write at once: more are no faster, and take more memory."""


class GroupBlock:
    """The rows of some groups, each of them whole.

    :param rows: a ``pyarrow.RecordBatch``; the rows of a group are together.

    Raises ``ValueError`` for a row without a group id.
    """

    def __init__(self, rows: Any) -> None:
        import pyarrow.compute as pc

        if rows["group_id"].null_count:
            raise ValueError("a row lacks its group id")
        self.rows = rows
        runs = pc.run_end_encode(rows["group_id"])
        self.group_ids: list[str] = runs.values.to_pylist()
        self.ends: list[int] = runs.run_ends.to_pylist()

    def __len__(self) -> int:
        return len(self.group_ids)

    def first(self, name: str) -> Any:
        """Return a column with the value in the first row of each group."""
        import pyarrow as pa

        return self.rows[name].take(column([0, *self.ends[:-1]] if self.ends else [], pa.int64()))

    def errors(self) -> list[str | None]:
        """Return each group's first error; ``None`` where no row has one."""
        if self.rows["error"].null_count == len(self.rows):
            return [None] * len(self)
        values = self.rows["error"].to_pylist()
        return [
            next((value for value in values[start:end] if value is not None), None)
            for start, end in pairwise([0, *self.ends])
        ]

    def fingerprints(self) -> tuple[list[str], list[int]]:
        """Return the fingerprint and the number of committed partitions of each group; see ``fingerprints``."""
        return fingerprints(self.rows, self.ends)

    def repeated(self, values: list[str]) -> Any:
        """Return a column with a value for each group in all of its rows."""
        import pyarrow as pa

        numbers = column(range(len(self.ends)), pa.int32())
        return column(values, pa.string()).take(repeat(numbers, column(self.ends, pa.int32())))


def whole_groups(batches: Iterable[Any]) -> Iterator[GroupBlock]:
    """Cut record batches into blocks of whole groups. Nothing is sorted: a group is what is adjacent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting: list[Any] = []
    for batch in batches:
        if not len(batch):
            continue
        last = batch["group_id"][-1]
        ends = pc.run_end_encode(batch["group_id"]).run_ends
        start = ends[-2].as_py() if len(ends) > 1 else 0  # where the rows of the last group begin
        if start == 0 and (not waiting or waiting[0]["group_id"][-1] == last):
            waiting.append(batch)  # one group, which may go on
            continue
        yield GroupBlock(_joined(pa, [*waiting, batch.slice(0, start)]))
        waiting = [batch.slice(start)]
    if waiting:
        yield GroupBlock(_joined(pa, waiting))


def _joined(pa: Any, batches: list[Any]) -> Any:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
