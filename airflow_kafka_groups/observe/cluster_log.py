"""The log of a Kafka cluster: numbered entries that follow one another, whichever connection wrote them.

::

    <storage>/_journal/<Kafka's cluster id>/log/00000001.json  a snapshot was taken: by whom, where, complete or not;
                                                               groups are about to be kept alive, or restored; a plan
                                                               was sealed; its approval was asked for, or given;
                                                               groups wait for a notice, or their owner had one; a
                                                               deletion has begun, is about to delete groups, has
                                                               their outcomes, or has ended
                                            exclusive          no entry: whether the storage replaces files

Files are created exclusively, and numbers have no gaps: of two that write at once, one gets the next number, and a
listing that is late costs a second look instead of an entry: the next number is always asked for by its name. Each
entry carries the SHA-256 of the one before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.observe.cluster_view import recorded_view
from airflow_kafka_groups.storage.access import unless_damaged, unless_warned
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError, check_format, plain
from airflow_kafka_groups.storage.json_files import read_named
from airflow_kafka_groups.storage.layout import Layout, StoragePath, journal_folder
from airflow_kafka_groups.storage.manifest import SnapshotManifest

LARGEST_ENTRY = 1 << 29
"""Bytes: beyond what names and reasons of a run's groups can take."""
_DIGITS = 8
_OLDER = len("000001.json")
_CHANGED = "does not follow the entry before it: the journal was changed"


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


def numbers_of(names: list[str]) -> set[int]:
    """Return the numbers that entries are named by."""
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return {int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal()}


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
            raise JournalError(f"{path} is an entry of the kind {data['kind']!r} where '{kind}' belongs")
    return Entry(path, data, hashlib.sha256(content).hexdigest())


class EntryKind(StrEnum):
    """The kinds of entries of a cluster's log. One that this version does not know may protect a group."""

    SNAPSHOT = "snapshot"
    CHANGE = "change"
    KEPT_ALIVE = "kept_alive"
    PLAN = "plan"
    QUESTION = "question"
    ANSWER = "answer"
    NOTICES = "notices"
    BEGUN = "begun"
    INTENT = "intent"
    OUTCOME = "outcome"
    ENDED = "ended"


KINDS = tuple(EntryKind)
OF_RUNS = frozenset({EntryKind.BEGUN, EntryKind.INTENT, EntryKind.OUTCOME, EntryKind.ENDED})
"""The kinds of the entries of deletion runs."""
TRIES = 100
"""How often somebody may be overtaken by others who write to the same log."""
OVERTAKEN = f"{TRIES} entries were written by others at the same time to %s: run again"
_NOT_LOGGED = "Other connections to the cluster may overlook this snapshot: %s"


class ClusterLog:
    """The log of one Kafka cluster: its entries follow one another, from 1 without gaps. Not for two threads at once.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.
    :param count: how many entries are known, and ``head`` the SHA-256 of the last of them. Default: none.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None, count: int = 0, head: str | None = None):
        self.folder = journal_folder(base, kafka_cluster_id) / "log"
        self.count = count
        self.head = head

    def read(self, *, listed: bool = True) -> Iterator[Entry]:
        """Yield the entries that were added since the last call; few are in memory at once.

        :param listed: list them, too, to notice a gap, also among those that are known. Default true. A listing only
            says how many there are at least: the next one is always asked for by its name.

        Raises ``JournalError`` when one is missing, damaged, of a later version or does not follow the one before it;
        ``StorageError``.
        """
        if listed:
            numbers = numbers_of(names := FILES.names(self.folder))
            if self.count == 0:
                self._require_no_other(names)
            unlisted = sorted(set(range(1, self.count + 1)) - numbers)
            for _ in read_few(self._require, unlisted):  # the listing is late, or they are gone
                pass
            for entry in read_few(self._require, range(self.count + 1, max(numbers, default=0) + 1)):
                yield self._follow(entry)
        while (later := read_entry(self._next())) is not None:
            yield self._follow(later)

    def _require_no_other(self, names: Iterable[str]) -> None:
        """Raise ``JournalError`` for files as they were named before: this log would seem to be empty."""
        older = [name for name in names if len(name) == _OLDER and name.endswith(".json")]
        if older or FILES.read(self.folder.parent / self._path(1).name) is not None:
            raise JournalError(
                f"{self.folder.parent} has a journal of a version before 0.1.0, which cannot be read: move the folder "
                "away, and take snapshots for as long as the idle time before you delete groups of this cluster"
            )

    def verify(self, first: int, last: int) -> None:
        """Read known entries once more. Raises ``JournalError`` unless each follows the one before it."""
        head = None
        for entry in read_few(self._require, range(first, last + 1)):
            if entry.number > first and entry.data.get("previous") != head:
                raise JournalError(f"{entry.path} {_CHANGED}")
            head = entry.sha256
        if last == self.count and head != self.head:
            raise JournalError(f"{self._path(self.count)} is not what it was: the journal was changed")

    def _require(self, number: int) -> Entry:
        if (entry := read_entry(self._path(number))) is None:
            raise JournalError(f"the journal has a gap: {self._path(number)} is missing")
        return entry

    def _follow(self, entry: Entry) -> Entry:
        if entry.data.get("previous") != self.head:
            raise JournalError(f"{entry.path} {_CHANGED}")
        if (kind := entry.data.get("kind")) not in KINDS:
            raise JournalError(f"{entry.path} is of the kind {kind!r}, of a later version: update")
        self._advance(entry)
        return entry

    def require_known(self) -> None:
        """Raise ``JournalError`` unless the last known entry is there as it was, and ``StorageError``."""
        if self.count:
            self.entry(self.count, self.head)

    def entry(self, number: int, sha256: str | None) -> Entry:
        """Read one entry again. Raises ``JournalError`` unless it is there as it was, and ``StorageError``."""
        entry = read_entry(self._path(number))
        if entry is None or entry.sha256 != sha256:
            how = "check that the storage is mounted" if entry is None else "the journal was changed"
            raise JournalError(f"{self._path(number)} is not what it was: {how}")
        return entry

    def create(self, data: Mapping[str, Any]) -> Entry:
        """Add an entry, durably.

        Raises ``FileExistsAlreadyError`` when somebody else has added one meanwhile; ``JournalError`` where the entry
        before it is not there, as in a storage that was unmounted: behind a gap, the log could never be read again.
        """
        self.require_known()
        data = {"format": FORMAT, **data, "previous": self.head}
        content = (json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n").encode()
        path = self._next()
        FILES.create(path, content)
        self._advance(entry := Entry(path, data, hashlib.sha256(content).hexdigest()))
        return entry

    def add(self, data: Mapping[str, Any]) -> Entry:
        """Add an entry behind all that are there, whoever writes meanwhile. Raises ``JournalError``, ``StorageError``.

        Only the last entry is read: whoever reads the log compares all of them.
        """
        for _ in range(TRIES):
            listed = max(numbers_of(FILES.names(self.folder)), default=0)
            self.count, self.head = max(listed - 1, 0), None
            while (last := read_entry(self._next())) is not None:
                self._advance(last)
            if self.count < listed:
                raise JournalError(f"{self._path(listed)} is listed and cannot be found: the journal was changed")
            with suppress(FileExistsAlreadyError):
                return self.create(data)
        raise JournalError(OVERTAKEN % self.folder)

    def _path(self, number: int) -> StoragePath:
        return self.folder / f"{number:0{_DIGITS}}.json"

    def _next(self) -> StoragePath:
        return self._path(self.count + 1)

    def _advance(self, entry: Entry) -> None:
        self.count += 1
        self.head = entry.sha256


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
