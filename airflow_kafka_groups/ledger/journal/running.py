"""Which runs may still delete, without reading all of a long journal: a restore asks twice a second while it waits."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from airflow_kafka_groups.ledger.journal.checkpoint import read_open
from airflow_kafka_groups.ledger.journal.files import (
    Entry,
    begun_backwards,
    ended_path,
    may_delete,
    read_all,
    read_entry,
    require_begun,
)
from airflow_kafka_groups.storage.ids import parse_time
from airflow_kafka_groups.storage.layout import StoragePath


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
