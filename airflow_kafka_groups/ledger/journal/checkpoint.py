"""Checkpoints: the sum of all ended runs before one, so that a history of a thousand runs is read like a short one.

A checkpoint is made from a complete reading of the chain, and the first entry of the next run has its SHA-256. It is
believed only by that, and it saves nothing but reading: a run without an end is always read again, and when anything
about a checkpoint is in doubt, all entries are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import JournalError, SnapshotError
from airflow_kafka_groups.ledger.journal.entries import (
    checkpoint_folder,
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
    plans: dict[str, list[int]] = {}
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
        if (plan_id := run.begun.get("plan_id")) is not None:
            plans.setdefault(plan_id, []).append(run.number)
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
    sha256 = write_sealed(where / f"{name}.parquet", table).sha256
    data = {
        "kind": "checkpoint",
        "runs": count,
        "last": last.sha256,
        "open": unfinished,
        "requests": requests,
        "plans": plans,
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
        if (named := newest.data.get("checkpoint")) is None:
            return None
        entry = read_entry(checkpoint_folder(folder) / str(named["file"]), "checkpoint")
        if entry is None or entry.sha256 != named["sha256"]:
            return None
        sealed = entry.data["table"]
        path = checkpoint_folder(folder) / str(sealed["file"])
        table = read_sealed(path, "groups", _COLUMNS, sealed["sha256"])
        checkpoint = Checkpoint(table, entry.data, read_run)
    except _DOUBTS:
        return None
    return checkpoint if listed.issuperset(range(1, checkpoint.runs + 1)) else None
