"""Where the journal's entries are, how they are chained, and their groups in columns.

::

    <storage>/_journal/<Kafka's cluster id>/00000001.json          a run has begun: plan, backup, approval, actor, lease
                                            00000001/000001.json   intent: these groups are about to be deleted
                                            00000001/000002.json   outcome of each of them, and so on
                                            00000001/ended.json    the run's end: every group's outcome once more
                                            checkpoints/…          what ended runs amount to, sealed by a first entry
                                            exclusive              no entry: whether the storage replaces files

Numbers have no gaps and every file is created exclusively, so that of two runs that begin at once exactly one gets the
next number, and a listing that is late costs a second look instead of an entry: the next number is always asked for
by its name. Each entry carries the SHA-256 of the one before it; the first entry of a run that of the run before, with
its last entry as far as it was known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.observe.cluster_log import Entry, numbers_of, read_entry
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES, read_all
from airflow_kafka_groups.storage.layout import FOLDER, StoragePath
from airflow_kafka_groups.storage.paths import parse_time

_RUN_DIGITS = 8


def cluster_of_run(ended: StoragePath) -> str | None:
    """Return the Kafka cluster id of a run by the path of its last entry; ``None`` if it is not in a journal."""
    folder = ended.parent.parent
    return unquote(folder.name) if folder.parent.name == FOLDER else None


def begun_path(folder: StoragePath, run: int) -> StoragePath:
    """Return the path of a run's first entry."""
    return folder / f"{run:0{_RUN_DIGITS}}.json"


def run_folder(folder: StoragePath, run: int) -> StoragePath:
    """Return the folder of a run's intents, outcomes and end."""
    return folder / f"{run:0{_RUN_DIGITS}}"


def ended_path(folder: StoragePath, run: int) -> StoragePath:
    """Return the path of a run's last entry."""
    return run_folder(folder, run) / "ended.json"


def checkpoint_folder(folder: StoragePath) -> StoragePath:
    """Return the folder of checkpoints."""
    return folder / "checkpoints"


def probe_path(folder: StoragePath) -> StoragePath:
    """Return the path of the file by which each run finds out whether the storage replaces files."""
    return folder / "exclusive"


def runs_listed(folder: StoragePath) -> set[int]:
    """Return the run numbers that a listing shows; there may be more."""
    return numbers_of(FILES.names(folder), _RUN_DIGITS)


def read_begun(folder: StoragePath, run: int) -> Entry | None:
    """Read a run's first entry, ``None`` if there is none. Raises as ``read_entry``."""
    begun = read_entry(begun_path(folder, run), "begun")
    if begun is None:
        return None
    with unless_damaged(JournalError, f"the journal's entry {begun.path}"):
        parse_time(begun.data["at"])
        previous, lease = begun.data["previous"] or {}, begun.data.get("lease") or {"group_id": ""}
        if not (isinstance(previous.get("entries", 0), int) and isinstance(lease["group_id"], str)):
            raise TypeError("a field has another type")
    return begun


def require_begun(folder: StoragePath, run: int) -> Entry:
    """Read a run's first entry. Raises ``JournalError`` if there is none, and as ``read_entry``."""
    begun = read_begun(folder, run)
    if begun is None:
        raise JournalError(f"the journal has a gap: {begun_path(folder, run)} is missing")
    return begun


def begun_entries(folder: StoragePath, first: int, listed: int) -> list[Entry]:
    """Read the first entries of runs; the listing only says where to begin to look for the last of them.

    Raises as ``require_begun``.
    """
    entries = read_all(partial(require_begun, folder), range(first, listed + 1))
    while (later := read_begun(folder, first + len(entries))) is not None:
        entries.append(later)
    return entries


def may_delete(begun: Entry) -> bool:
    """Return whether a run deletes, by its first entry: it is not known to be a dry run."""
    return begun.data.get("dry_run") is not True


def intents_json(fingerprints: Mapping[str, str]) -> dict[str, Any]:
    """Return the groups of an intent with their fingerprints."""
    return {"groups": list(fingerprints), "fingerprints": list(fingerprints.values())}


def outcomes_json(outcomes: Iterable[GroupOutcome]) -> dict[str, Any]:
    """Return outcomes: the groups, the different outcomes, and which of them each group has."""
    places: dict[tuple[str, str, str], int] = {}
    groups, which = list[str](), list[int]()
    for item in outcomes:
        groups.append(item.group_id)
        which.append(places.setdefault((item.outcome.value, item.code, item.reason), len(places)))
    return {"groups": groups, "outcomes": [list(found) for found in places], "which": which}


def end_json(
    outcomes: Sequence[GroupOutcome], intents: Mapping[str, str], decided: Mapping[str, str], at: str
) -> dict[str, Any]:
    """Return the outcomes of a complete run with their times; the inverse of ``end_of``."""
    times: dict[str, int] = {}

    def place(when: str) -> int:
        return times.setdefault(when, len(times))

    return {
        **outcomes_json(outcomes),
        "decided": [place(decided.get(item.group_id, at)) for item in outcomes],
        "intended": [place(intents[item.group_id]) if item.group_id in intents else None for item in outcomes],
        "times": list(times),
    }


def end_of(rows: Mapping[str, Any]) -> Iterator[tuple[GroupOutcome, datetime, datetime | None]]:
    """Yield each outcome with the time when it was recorded and that of the group's intent, if there was one."""
    times = [parse_time(when) for when in rows["times"]]
    columns = zip(outcomes_of(rows), rows["decided"], rows["intended"], strict=True)
    for item, decided, intended in columns:
        yield item, times[decided], None if intended is None else times[intended]


def outcomes_of(entry: Mapping[str, Any]) -> Iterator[GroupOutcome]:
    """Yield the outcomes in an entry; the inverse of ``outcomes_json``. Raises ``KeyError`` and the like."""
    kinds = [(Outcome(what), str(code), str(reason)) for what, code, reason in entry["outcomes"]]
    for group_id, place in zip(entry["groups"], entry["which"], strict=True):
        what, code, reason = kinds[place]
        yield GroupOutcome(group_id=group_id, outcome=what, code=code, reason=reason)
