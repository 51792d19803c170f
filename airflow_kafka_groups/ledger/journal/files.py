"""Where the journal's entries are, and how they are chained.

::

    <storage>/_journal/<Kafka's cluster id>/00000001.json          a run has begun: plan, backup, approval, actor, lease
                                            00000001/000001.json   intent: these groups are about to be deleted
                                            00000001/000002.json   outcome of each of them, and so on
                                            00000001/ended.json    the run's end: every group's outcome once more
                                            00000001/outcomes.jsonl  those of a large run, sealed by its end
                                            checkpoints/…          what ended runs amount to, sealed by a first entry
                                            exclusive              no entry: whether the storage replaces files

Numbers have no gaps and every file is created exclusively, so that of two runs that begin at once exactly one gets the
next number, and a listing that is late costs a second look instead of an entry: the next number is always asked for
by its name. Each entry carries the SHA-256 of the one before it; the first entry of a run that of the run before, with
its last entry as far as it was known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.storage.durable_files import (
    READERS,
    create_file,
    list_names,
    read_all,
    read_file,
    unless_damaged,
)
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError, check_format
from airflow_kafka_groups.storage.layout import FOLDER, StoragePath
from airflow_kafka_groups.storage.named_files import read_named
from airflow_kafka_groups.storage.paths import parse_time

LARGEST_ENTRY = 1 << 29
"""Bytes: beyond what names and reasons of a run's groups can take."""
_RUN_DIGITS, _ENTRY_DIGITS = 8, 6


def cluster_of_run(ended: StoragePath) -> str | None:
    """Return the Kafka cluster id of a run by the path of its last entry; ``None`` if it is not in a journal."""
    folder = ended.parent.parent
    return unquote(folder.name) if folder.parent.name == FOLDER else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it was read: its content and the SHA-256 of its bytes."""

    path: StoragePath
    data: Mapping[str, Any]
    sha256: str


def begun_path(folder: StoragePath, run: int) -> StoragePath:
    """Return the path of a run's first entry."""
    return folder / f"{run:0{_RUN_DIGITS}}.json"


def run_folder(folder: StoragePath, run: int) -> StoragePath:
    """Return the folder of a run's intents, outcomes and end."""
    return folder / f"{run:0{_RUN_DIGITS}}"


def ended_path(folder: StoragePath, run: int) -> StoragePath:
    """Return the path of a run's last entry."""
    return run_folder(folder, run) / "ended.json"


def body_path(folder: StoragePath, run: int) -> StoragePath:
    """Return the path of a large run's outcomes."""
    return run_folder(folder, run) / "outcomes.jsonl"


def checkpoint_folder(folder: StoragePath) -> StoragePath:
    """Return the folder of checkpoints."""
    return folder / "checkpoints"


def probe_path(folder: StoragePath) -> StoragePath:
    """Return the path of the file by which each run finds out whether the storage replaces files."""
    return folder / "exclusive"


def runs_listed(folder: StoragePath) -> set[int]:
    """Return the run numbers that a listing shows; there may be more."""
    return numbers_of(list_names(folder), _RUN_DIGITS)


def numbers_of(names: list[str], digits: int) -> set[int]:
    """Return the numbers of so many digits that JSON files are named by."""
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return {int(stem) for stem in stems if len(stem) == digits and stem.isdecimal()}


def create_entry(path: StoragePath, data: Mapping[str, Any]) -> Entry:
    """Create an entry, durably. Raises ``FileExistsAlreadyError`` or ``StorageError``."""
    content = (json.dumps({"format": FORMAT, **data}, separators=(",", ":"), allow_nan=False) + "\n").encode()
    create_file(path, content)
    return Entry(path, data, hashlib.sha256(content).hexdigest())


def read_entry(path: StoragePath, kind: str | None = None, *, named: bool = False) -> Entry | None:
    """Read an entry, ``None`` if there is none.

    :param named: whether a user named it, and not this journal. Default false.

    Raises ``JournalError`` for one that is damaged, and ``StorageError`` when the storage fails.
    """
    what = "the journal's entry"
    content = read_named(path, what, LARGEST_ENTRY, JournalError) if named else read_file(path)
    if content is None:
        return None
    with unless_damaged(JournalError, f"{what} {path}"):
        data = json.loads(content)
        try:
            check_format(data)
        except UnknownFormatError as exc:
            raise JournalError(f"the journal's entry {path} cannot be read: {exc}") from exc
        if kind is not None and data["kind"] != kind:
            raise JournalError(f"{path} is an entry of the kind {data['kind']!r} where {kind!r} belongs")
    return Entry(path, data, hashlib.sha256(content).hexdigest())


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


def begun_backwards(folder: StoragePath) -> Iterator[dict[int, Entry]]:
    """Yield the first entries of runs by their numbers: the newest runs first, some at once, these oldest first.

    Raises as ``require_begun``.
    """
    first = max(runs_listed(folder), default=0) + 1
    if since := begun_entries(folder, first, first - 1):
        yield dict(enumerate(since, start=first))
    while first > 1:
        numbers = range(max(first - READERS, 1), first)
        yield dict(zip(numbers, read_all(partial(require_begun, folder), numbers), strict=True))
        first = numbers[0]


def may_delete(begun: Entry) -> bool:
    """Return whether a run deletes, by its first entry: it is not known to be a dry run."""
    return begun.data.get("dry_run") is not True


class Chain:
    """Entries that follow one another in one folder, numbered from 1 without gaps. Not for two threads at once.

    :param origin: the SHA-256 of what the first entry follows; ``None`` where it follows nothing.
    """

    def __init__(self, folder: StoragePath, origin: str | None) -> None:
        self.folder = folder
        self.head = origin
        self.count = 0

    def read(self) -> list[Entry]:
        """Read the entries that were added since the last call.

        The listing only says how many there are at least: the next one is always asked for by its name. Raises
        ``JournalError`` when one is missing, damaged or does not follow the one before it; ``StorageError``.
        """
        listed = max(numbers_of(list_names(self.folder), _ENTRY_DIGITS), default=0)
        found: list[Entry] = []
        while True:
            path = self._next()
            entry = read_entry(path)
            if entry is None:
                if self.count < listed:
                    raise JournalError(f"the journal has a gap: {path} is missing")
                return found
            if entry.data.get("previous") != self.head:
                raise JournalError(f"{path} does not follow the entry before it: the journal was changed")
            found.append(entry)
            self._advance(entry)

    def append(self, data: Mapping[str, Any]) -> Entry:
        """Add an entry, durably.

        Raises ``JournalError`` when somebody else has added one meanwhile, and ``StorageError``.
        """
        try:
            entry = create_entry(self._next(), {**data, "previous": self.head})
        except FileExistsAlreadyError as exc:
            raise JournalError(f"somebody else has written here meanwhile: {exc}") from exc
        self._advance(entry)
        return entry

    def _next(self) -> StoragePath:
        return self.folder / f"{self.count + 1:0{_ENTRY_DIGITS}}.json"

    def _advance(self, entry: Entry) -> None:
        self.count += 1
        self.head = entry.sha256
