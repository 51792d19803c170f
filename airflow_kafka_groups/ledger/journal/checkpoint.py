"""Checkpoints: the sum of all ended runs before one, so that a history of a thousand runs is read like a short one.

A checkpoint is made from a complete reading of the chain, and the first entry of the next run has its SHA-256. It is
believed only by that, and it saves nothing but reading: a run without an end is always read again, and when anything
about a checkpoint is in doubt, all entries are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from airflow_kafka_groups.exceptions import JournalError, SnapshotError
from airflow_kafka_groups.ledger.journal.files import (
    begun_backwards,
    checkpoint_folder,
    ended_path,
    may_delete,
    require_begun,
)
from airflow_kafka_groups.ledger.journal.history import (
    FEW,
    Checkpoint,
    CheckpointRow,
    RecordedOutcome,
    RunRecord,
    keep_latest,
    leases_of,
)
from airflow_kafka_groups.observe.cluster_log import Entry, create_entry, read_entry
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.file_storage import read_all
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.paths import new_id, parse_time
from airflow_kafka_groups.storage.schemas import arrow_schema, columns
from airflow_kafka_groups.storage.sealed_table import read_sealed, write_sealed

CHECKPOINT_RUNS = 50
"""Runs after which a checkpoint is made."""

_FOUND = dict.fromkeys(("deletion", "life", "gone"), "strings, null")
_COLUMNS = columns({"group_id": "string", "runs": "strings", **_FOUND})
"""The columns of a checkpoint's table. One with others is of another version, and is not believed."""

_DOUBTS = (JournalError, SnapshotError, AttributeError, KeyError, TypeError, ValueError)
"""Errors of a checkpoint that is damaged."""


def write_checkpoint(folder: StoragePath, runs: Iterable[RunRecord], last: Entry) -> dict[str, Any]:
    """Write a checkpoint of all runs, durably, and return what the next run's first entry says of it.

    :param runs: every run, oldest first; each is taken once, and none is kept.
    :param last: the first entry of the last of them.

    Raises ``StorageError``, ``FileExistsAlreadyError`` and what ``runs`` raises.
    """
    import pyarrow as pa

    deletions, lives, gone = (dict[str, RecordedOutcome]() for _ in range(3))
    of_group: dict[str, list[int]] = {}
    requests: dict[str, list[int]] = {}
    leases, count, unfinished = dict[str, datetime](), 0, list[int]()
    for run in runs:
        count += 1
        leases |= leases_of([run])
        if run.ended is None:
            unfinished.append(run.number)
            continue
        keep_latest(deletions, run.deletions())
        keep_latest(lives, run.lives())
        keep_latest(gone, run.lives(gone=True))
        requests.setdefault(run.request_id, []).append(run.number)
        for group_id in run.outcomes:
            of_group.setdefault(group_id, []).append(run.number)
    rows = [
        CheckpointRow(id_, tuple(numbers), deletions.get(id_), lives.get(id_), gone.get(id_))
        for id_, numbers in of_group.items()
    ]
    name = new_id(parse_time(last.data["at"]))  # a name of this try: of two runs that begin at once, one wins
    where, schema = checkpoint_folder(folder), arrow_schema(_COLUMNS)
    parts = [schema.empty_table()]
    for start in range(0, len(rows), FEW):
        values = zip(*(row.values() for row in rows[start : start + FEW]), strict=True)
        made = [column(list(of), each.type) for of, each in zip(values, schema, strict=True)]
        parts.append(pa.table(made, schema=schema))
    table = pa.concat_tables(parts)
    _, sha256 = write_sealed(where / f"{name}.parquet", table)
    data = {
        "kind": "checkpoint",
        "runs": count,
        "last": last.sha256,
        "open": unfinished,
        "requests": requests,
        "leases": {group_id: at.isoformat() for group_id, at in leases.items()},
        "table": {"file": f"{name}.parquet", "rows": len(rows), "sha256": sha256},
    }
    entry = create_entry(where / f"{name}.json", data)
    return {"file": f"{name}.json", "sha256": entry.sha256}


def read_checkpoint(
    folder: StoragePath, newest: Entry, listed: set[int], read_run: Callable[[int], RunRecord]
) -> Checkpoint | None:
    """Read the checkpoint that the newest run's first entry names; ``None`` if there is none that can be believed.

    :param listed: the run numbers that a listing shows: while one before the checkpoint is missing, it is not believed.

    Raises ``StorageError``.
    """
    try:
        if (entry := _named_by(folder, newest)) is None:
            return None
        sealed = entry.data["table"]
        path = checkpoint_folder(folder) / str(sealed["file"])
        table = read_sealed(path, "groups", _COLUMNS, sha256=sealed["sha256"], rows=sealed["rows"])
        checkpoint = Checkpoint(table, entry.data, read_run)
    except _DOUBTS:
        return None
    return checkpoint if listed.issuperset(range(1, checkpoint.runs + 1)) else None


def read_open(folder: StoragePath, newest: Entry) -> tuple[int, list[int]]:
    """Return how many runs the checkpoint is about that a run names, and which of these had no end, oldest first.

    :param newest: the first entry of that run. Where it names none that can be believed, it is about no run.

    Raises ``StorageError``.
    """
    try:
        entry = _named_by(folder, newest)
        return (0, []) if entry is None else (int(entry.data["runs"]), sorted(map(int, entry.data["open"])))
    except _DOUBTS:
        return 0, []


def _named_by(folder: StoragePath, newest: Entry) -> Entry | None:
    if (named := newest.data.get("checkpoint")) is None:
        return None
    entry = read_entry(checkpoint_folder(folder) / str(named["file"]), "checkpoint")
    return entry if entry is not None and entry.sha256 == named["sha256"] else None


def may_still_delete(folder: StoragePath, since: datetime) -> list[int]:
    """Return the numbers of the runs that may still delete: those that have no end, oldest first.

    A run deletes until another that is no dry run has begun: those before one of that time are left out. Where there
    are none but dry runs, those are not read that a checkpoint knows to have ended.

    Raises ``JournalError`` and ``StorageError``.
    """

    def ends_others(begun: Entry) -> bool:
        return may_delete(begun) and parse_time(begun.data["at"]) <= since

    found: dict[int, Entry] = {}
    for some in begun_backwards(folder):
        is_first, found = not found, some | found
        if any(map(ends_others, some.values())):
            break
        if is_first:
            settled, unfinished = read_open(folder, found[max(found)])
        if min(found) <= settled + 1:
            earlier = [number for number in unfinished if number < min(found)]
            found = dict(zip(earlier, read_all(partial(require_begun, folder), earlier), strict=True)) | found
            break
    last = max((number for number, begun in found.items() if ends_others(begun)), default=0)
    numbers = [number for number, begun in found.items() if number >= last and may_delete(begun)]
    ended = read_all(lambda number: read_entry(ended_path(folder, number)), numbers)
    return [number for number, entry in zip(numbers, ended, strict=True) if entry is None]
