"""The log of a Kafka cluster: numbered entries that follow one another, whichever connection wrote them.

::

    <storage>/_journal/<Kafka's cluster id>/log/000001.json    a snapshot was taken: by whom, where, complete or not;
                                                               groups are about to be kept alive, or restored; a plan
                                                               was sealed; its approval was asked for, or given;
                                                               groups wait for a notice, or their owner had one

Files are created exclusively, and numbers have no gaps: of two that write at once, one gets the next number, and a
listing that is late costs a second look instead of an entry. Each entry carries the SHA-256 of the one before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.observe.cluster_view import recorded_view
from airflow_kafka_groups.storage.access import unless_damaged, unless_warned
from airflow_kafka_groups.storage.file_storage import FILES, read_all
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError, check_format, plain, read_model
from airflow_kafka_groups.storage.json_files import read_named
from airflow_kafka_groups.storage.layout import Layout, StoragePath, check_cluster, check_id, journal_folder
from airflow_kafka_groups.storage.manifest import SnapshotManifest

LARGEST_ENTRY = 1 << 29
"""Bytes: beyond what names and reasons of a run's groups can take."""
_ENTRY_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it was read: its content and the SHA-256 of its bytes."""

    path: StoragePath
    data: Mapping[str, Any]
    sha256: str

    @property
    def number(self) -> int:
        """Its number in its chain."""
        return int(self.path.name.removesuffix(".json"))


def numbers_of(names: list[str], digits: int) -> set[int]:
    """Return the numbers of so many digits that JSON files are named by."""
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return {int(stem) for stem in stems if len(stem) == digits and stem.isdecimal()}


def create_entry(path: StoragePath, data: Mapping[str, Any]) -> Entry:
    """Create an entry, durably. Raises ``FileExistsAlreadyError`` or ``StorageError``."""
    content = (json.dumps({"format": FORMAT, **data}, separators=(",", ":"), allow_nan=False) + "\n").encode()
    FILES.create(path, content)
    return Entry(path, data, hashlib.sha256(content).hexdigest())


def read_entry(path: StoragePath, kind: str | None = None, *, named: bool = False) -> Entry | None:
    """Read an entry, ``None`` if there is none.

    :param named: whether a user named it, and not this journal. Default false.

    Raises ``JournalError`` for one that is damaged, and ``StorageError`` when the storage fails.
    """
    what = "the journal's entry"
    content = read_named(path, what, LARGEST_ENTRY, JournalError) if named else FILES.read(path)
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


class Chain:
    """Entries that follow one another in one folder, numbered from 1 without gaps. Not for two threads at once.

    :param origin: the SHA-256 of what the first entry follows; ``None`` where it follows nothing.
    :param count: how many entries are known: the origin is the SHA-256 of the last of them. Default: none.
    """

    def __init__(self, folder: StoragePath, origin: str | None, count: int = 0) -> None:
        self.folder = folder
        self.head = origin
        self.count = count

    def read(self, *, listed: bool = True) -> list[Entry]:
        """Read the entries that were added since the last call.

        :param listed: list them, too, to notice a gap. Default true. A listing only says how many there are at least:
            the next one is always asked for by its name.

        Raises ``JournalError`` when one is missing, damaged or does not follow the one before it; ``StorageError``.
        """
        last = max(numbers_of(FILES.names(self.folder), _ENTRY_DIGITS), default=0) if listed else 0
        found: list[Entry] = []
        for path, entry in zip(*self._read_listed(last), strict=True):
            if entry is None:
                raise JournalError(f"the journal has a gap: {path} is missing")
            found.append(self._follow(entry))
        while (entry := read_entry(self._next())) is not None:
            found.append(self._follow(entry))
        return found

    def _read_listed(self, listed: int) -> tuple[list[StoragePath], list[Entry | None]]:
        paths = [self._path(number) for number in range(self.count + 1, listed + 1)]
        return paths, read_all(read_entry, paths)

    def _follow(self, entry: Entry) -> Entry:
        if entry.data.get("previous") != self.head:
            raise JournalError(f"{entry.path} does not follow the entry before it: the journal was changed")
        self._advance(entry)
        return entry

    def append(self, data: Mapping[str, Any]) -> Entry:
        """Add an entry, durably.

        Raises ``JournalError`` when somebody else has added one meanwhile, and ``StorageError``.
        """
        try:
            return self.create(data)
        except FileExistsAlreadyError as exc:
            raise JournalError(f"somebody else has written here meanwhile: {exc}") from exc

    def create(self, data: Mapping[str, Any]) -> Entry:
        """As ``append``, but raise ``FileExistsAlreadyError`` when somebody else has added one meanwhile."""
        entry = create_entry(self._next(), {**data, "previous": self.head})
        self._advance(entry)
        return entry

    def _path(self, number: int) -> StoragePath:
        return self.folder / f"{number:0{_ENTRY_DIGITS}}.json"

    def _next(self) -> StoragePath:
        return self._path(self.count + 1)

    def _advance(self, entry: Entry) -> None:
        self.count += 1
        self.head = entry.sha256


class EntryKind(StrEnum):
    """The kinds of entries of a cluster's log. One that this version does not know may protect a group."""

    SNAPSHOT = "snapshot"
    CHANGE = "change"
    KEPT_ALIVE = "kept_alive"
    PLAN = "plan"
    QUESTION = "question"
    ANSWER = "answer"
    NOTICES = "notices"


KINDS = tuple(EntryKind)
TRIES = 100
"""How often somebody may be overtaken by others who write to the same log."""
_NOT_LOGGED = "Other connections to the cluster may overlook this snapshot: %s"


class ClusterLog(Chain):
    """The log of one Kafka cluster. Not for two threads at once.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.
    :param count: how many entries are known, and ``head`` the SHA-256 of the last of them. Default: none.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None, count: int = 0, head: str | None = None):
        super().__init__(journal_folder(base, kafka_cluster_id) / "log", head, count)

    def read(self, *, listed: bool = True) -> list[Entry]:
        """Read the entries that were added since the last call, as ``Chain`` does.

        Raises ``JournalError`` for an entry of a later version, too: nobody here knows what it says.
        """
        found = super().read(listed=listed)
        if other := next((each for each in found if each.data.get("kind") not in KINDS), None):
            raise JournalError(f"{other.path} is of the kind {other.data.get('kind')!r}, of a later version: update")
        return found

    def require_known(self) -> None:
        """Raise ``JournalError`` unless the last known entry is there as it was, and ``StorageError``."""
        if self.count:
            self.entry(self.count, self.head)

    def entry(self, number: int, sha256: str | None) -> Entry:
        """Read one entry again. Raises ``JournalError`` unless it is there as it was, and ``StorageError``."""
        entry = read_entry(self._path(number))
        if entry is None or entry.sha256 != sha256:
            raise JournalError(f"{self._path(number)} is not what it was: the journal was changed")
        return entry

    def add(self, data: Mapping[str, Any]) -> Entry:
        """Add an entry behind all that are there, whoever writes meanwhile. Raises ``JournalError``, ``StorageError``.

        Only the last entry is read: whoever reads the log compares all of them.
        """
        for _ in range(TRIES):
            listed = max(numbers_of(FILES.names(self.folder), _ENTRY_DIGITS), default=0)
            self.count, self.head = max(listed - 1, 0), None
            while (last := read_entry(self._next())) is not None:
                self._advance(last)
            if self.count < listed:
                raise JournalError(f"{self._path(listed)} is listed and cannot be found: the journal was changed")
            with suppress(FileExistsAlreadyError):
                return self.create(data)
        raise JournalError(f"{TRIES} entries of {self.folder} were written by others at the same time: run again")


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot as its entry in the log has it.

    :param folder: the folder of the connection that took it.
    :param at: when the last of it was read.
    :param identity: as whom its connection was logged in; ``None`` if that is not known.
    """

    folder: str
    snapshot_id: str
    at: datetime
    identity: str | None = None


def log_snapshot(layout: Layout, manifest: SnapshotManifest) -> None:
    """Add a snapshot to the log of its cluster, before its manifest is written.

    So whoever finds the snapshot missing looks again, and none is overlooked. A log that cannot be written ends no
    snapshot: its own folder has it. One without the cluster's id is not added: brokers that start may not know it yet.
    """
    if manifest.kafka_cluster_id is None:
        return
    view = recorded_view(manifest.view, f"snapshot {manifest.snapshot_id}")
    with unless_warned(_NOT_LOGGED):
        identity = None if view is None else view.connection.identity
        taken = TakenSnapshot(layout.cluster, manifest.snapshot_id, manifest.observed_at, identity)
        ClusterLog(layout.base, manifest.kafka_cluster_id).add({"kind": EntryKind.SNAPSHOT, **plain(taken)})


def taken_in(entries: Iterable[Entry]) -> list[TakenSnapshot]:
    """Return the snapshots among entries of the log. Raises ``JournalError`` for one that is damaged."""
    found = []
    for entry in entries:
        if entry.data.get("kind") != EntryKind.SNAPSHOT:
            continue
        with unless_damaged(JournalError, f"the entry {entry.path}"):
            found.append(taken := read_model(TakenSnapshot, entry.data))
            check_cluster(taken.folder)
            check_id("snapshot_id", taken.snapshot_id)
    return found
