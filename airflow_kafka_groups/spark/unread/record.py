"""The record of the work on one group's backlog: numbered files, each created once, that a restart reads.

``<records>/<key>/<run>/<entry>.json``; docs/formats.md specifies the entries. The intent is recorded before the effect,
and the outcome after it. Since an entry is created by one process only, a process that another one has replaced notices
it at its next entry, and stops before it commits.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JobError
from airflow_kafka_groups.observe.offset_values import Commits, Partition, Range, commit_rows, parse_commits
from airflow_kafka_groups.spark.unread.ranges import (
    Backlog,
    Slice,
    cut,
    merged,
    overlap,
    parse_ranges,
    range_rows,
    without,
)
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import FORMAT, check_format, digest_of
from airflow_kafka_groups.storage.paths import new_id

RUN, ATTEMPT, PROCESSING, PROCESSED, COMMIT, ENDED = "run", "attempt", "processing", "processed", "commit", "ended"
COMMITTED, NOT_COMMITTED, UNVERIFIED, ABANDONED = "committed", "not_committed", "unverified", "abandoned"
Entry = Mapping[str, Any]


class TakenOverError(JobError):
    """Another process works on the same backlog; this one has committed nothing since.

    :param entry: the kind of the entry that this process could not create.
    """

    def __init__(self, message: str, entry: str) -> None:
        super().__init__(message)
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: the ranges that were read when it began, and how they are cut.

    :param request: what was asked for. A restart continues the run only if it asks for the same.
    :param before: the group's commits when the run began.
    """

    run_id: str
    request: Mapping[str, Any]
    before: Commits
    backlog: Backlog
    slices: Sequence[Slice]


class Record:
    """The entries of the newest run of one group, and the ranges that unfinished runs before it may have processed.

    :param storage: where they are; ``None`` keeps them in memory, so a restart knows nothing.
    :param folder: the folder of this group's runs.

    Raises ``JobError`` if an entry is missing or was changed, ``StorageError`` if one cannot be read.
    """

    def __init__(self, storage: Storage | None = None, folder: str = "") -> None:
        self._storage, self._folder = storage, folder
        self._number = 0
        self._entries: list[Entry] = []
        if storage is None:
            return
        for name in reversed([name for name in storage.folders(folder) if name.isdecimal()]):
            self._number = int(name)
            self._entries = self._read(storage)
            if self._entries:  # the newest may have none yet
                break

    @property
    def place(self) -> str | None:
        """The folder of the newest run."""
        return None if self._storage is None else self._path()

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return _run(self._entries[0]) if self._entries else None

    @property
    def ended(self) -> str | None:
        """How the newest run ended; ``None`` if it did not."""
        return next((entry["outcome"] for entry in self._of(ENDED)), None)

    @property
    def attempts(self) -> int:
        """The number of processes that have worked on the newest run."""
        return len(self._of(ATTEMPT))

    def processed(self) -> dict[int, int]:
        """Return the attempt that processed each slice completely, by the slice's number."""
        found: dict[int, int] = {}
        for entry in self._entries:
            if entry["kind"] == PROCESSED:
                found[entry["slice"]] = entry["attempt"]
            elif entry["kind"] == PROCESSING:  # it is processed again, and what the attempt before wrote is replaced
                found.pop(entry["slice"], None)
        return found

    def outcomes(self) -> dict[int, str]:
        """Return the last known outcome of each slice's commit."""
        return {entry["slice"]: entry["outcome"] for entry in self._of(COMMIT)}

    def touched(self) -> list[Range]:
        """Return the offsets that the newest run, and unfinished ones before it, may have processed."""
        if not self._entries:
            return []
        before = parse_ranges(self._entries[0]["processed_before"])
        if self.ended == COMMITTED:  # of other topics, it says nothing
            return without(before, parse_ranges(self._entries[0]["ranges"]))
        begun = [each for entry in self._of(PROCESSING) for each in parse_ranges(entry["ranges"])]
        return merged([*before, *begun])

    def repeats(self) -> list[Range]:
        """Return the offsets of the newest run that were, or may have been, processed more than once."""
        entries = [*self._of(RUN), *self._of(ATTEMPT)]
        return merged(each for entry in entries for each in parse_ranges(entry["repeats"]))

    def begin(self, request: Mapping[str, Any], before: Commits, backlog: Backlog, size: int) -> Run:
        """Begin a new run, and return it. An earlier one that did not end is abandoned: no process continues it.

        :param size: the most offsets of a slice; 0 for one slice.
        """
        touched = self.touched()
        self.abandon()
        self._entries, self._number = [], self._number + 1
        self.append(
            RUN,
            run_id=new_id(datetime.now(UTC)),
            request=dict(request),
            max_records_per_slice=size,
            before=commit_rows(before),
            ranges=range_rows(backlog.ranges),
            ends=[{**where._asdict(), "offset": end} for where, end in sorted(backlog.ends.items())],
            lost=[{**where._asdict(), "offsets": count} for where, count in sorted(backlog.lost.items())],
            decided=list(backlog.decided),
            hidden=backlog.hidden,
            processed_before=range_rows(touched),
            repeats=range_rows(overlap(backlog.ranges, touched)),
        )
        return _run(self._entries[0])

    def abandon(self) -> None:
        """Record that no process continues the newest run, if it did not end."""
        if self._entries and self.ended is None:
            self.append(ENDED, outcome=ABANDONED)

    def attempt(self, slices: Sequence[Slice]) -> None:
        """Record that this process begins to work on these slices, and what it may process once more."""
        begun = {entry["slice"] for entry in self._of(PROCESSING)}
        again = merged(each for one in slices if one.number in begun for each in one.ranges)
        self.append(
            ATTEMPT,
            attempt=self.attempts + 1,
            host=platform.node(),
            pid=os.getpid(),
            slice=slices[0].number if slices else None,
            repeats=range_rows(again),
        )

    def append(self, kind: str, **fields: Any) -> None:
        """Create the next entry.

        Raises ``TakenOverError`` if another process has created it, ``StorageError`` if it cannot be created.
        """
        content = {
            "format": FORMAT,
            "kind": kind,
            "at": datetime.now(UTC).isoformat(),
            "previous": self._entries[-1]["digest"] if self._entries else None,
            **fields,
        }
        entry = {**content, "digest": digest_of(content)}
        path = self._path(len(self._entries) + 1)
        try:
            if self._storage is not None:
                self._storage.create(path, (json.dumps(entry, indent=1) + "\n").encode())
        except FileExistsAlreadyError:
            raise TakenOverError(
                f"another process works on this backlog too: {path} is not of this one, which stops here. What it "
                "processed since its last entry is processed again by the other one",
                kind,
            ) from None
        self._entries.append(entry)

    def _of(self, kind: str) -> list[Entry]:
        return [entry for entry in self._entries if entry["kind"] == kind]

    def _path(self, number: int | None = None) -> str:
        run = f"{self._folder}/{self._number:06d}"
        return run if number is None else f"{run}/{number:06d}.json"

    def _read(self, storage: Storage) -> list[Entry]:
        """Read the newest run's entries: those that are listed several at once, and then what comes meanwhile."""
        found: list[Entry] = []

        def add(text: bytes) -> None:
            found.append(_parse(text, self._path(len(found) + 1), found[-1]["digest"] if found else None))

        listed = self._listed(storage)
        first_gap = next(number for number in count(1) if number not in listed)
        for text in storage.read_many([self._path(number) for number in range(1, first_gap)]):
            add(text)
        while (text_or_none := storage.read(self._path(len(found) + 1))) is not None:
            add(text_or_none)
        if len(self._listed(storage)) > len(found):
            raise JobError(
                f"{self._path(len(found) + 1)} is missing: what was processed is not known. Restore it, or look at the "
                f"group and delete {self._path()}; the next run then begins at the group's commits"
            )
        return found

    def _listed(self, storage: Storage) -> set[int]:
        names = (name.removesuffix(".json") for name in storage.files(self._path()))
        return {int(name) for name in names if name.isdecimal()}


def open_record(storage: Storage, records: str, kafka_cluster_id: str, group_id: str) -> Record:
    """Read the record of a group."""
    key = sha256(f"{kafka_cluster_id}\0{group_id}".encode()).hexdigest()[:16]
    return Record(storage, f"{records.rstrip('/')}/{key}")


def _run(entry: Entry) -> Run:
    backlog = Backlog(
        ranges=parse_ranges(entry["ranges"]),
        ends={Partition(row["topic"], row["partition"]): row["offset"] for row in entry["ends"]},
        lost={Partition(row["topic"], row["partition"]): row["offsets"] for row in entry["lost"]},
        decided=tuple(entry["decided"]),
        hidden=entry["hidden"],
    )
    return Run(
        run_id=entry["run_id"],
        request=entry["request"],
        before=parse_commits(entry["before"]),
        backlog=backlog,
        slices=cut(backlog, entry["max_records_per_slice"]),
    )


def _parse(text: bytes, path: str, previous: str | None) -> Entry:
    try:
        entry = json.loads(text)
        check_format(entry)
        if entry["digest"] != digest_of(entry) or entry["previous"] != previous:
            raise ValueError("its digest, or that of the entry before it, differs")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(
            f"{path} is not an entry of the record ({type(exc).__name__}: {exc}): it was changed, or another version "
            "of this package wrote it. Restore it, or run that version"
        ) from exc
    return entry  # type: ignore[no-any-return]
