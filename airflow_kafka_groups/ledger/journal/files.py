"""Where the journal's entries are, and how they are chained.

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

from functools import partial
from urllib.parse import unquote

from airflow_kafka_groups.exceptions import JournalError
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
