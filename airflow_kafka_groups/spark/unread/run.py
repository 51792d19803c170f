"""A run of the work on one group's backlog: its record, and the attempts at it.

The record is numbered files, each created once, that a restart reads (docs/formats.md): the intent before the effect,
and the outcome after it. A process that another one has replaced notices it at its next entry, before it commits.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JobError, StorageError
from airflow_kafka_groups.observe.offset_values import Commit, Commits, Partition, Range, commit_rows, parse_commits
from airflow_kafka_groups.spark.unread.group import (
    BacklogRequest,
    NotCommittedError,
    NotVerifiedError,
    Observed,
    OffsetsClient,
    commit_ends,
    moved,
    offsets_to_commit,
    plan,
)
from airflow_kafka_groups.spark.unread.ranges import (
    Backlog,
    BacklogContext,
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
    """Another process works on the same backlog, and this one could not create such an entry."""

    def __init__(self, message: str, entry: str) -> None:
        super().__init__(message)
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: what was asked for, the group's commits and the ranges when it began, and how they are cut."""

    run_id: str
    request: Mapping[str, Any]
    before: Commits
    backlog: Backlog
    slices: Sequence[Slice]


class Record:
    """The entries of the newest run of one group, and the ranges that unfinished runs before it may have processed.

    :param storage: where they are; ``None`` keeps them in memory, so a restart knows nothing.

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
        """Begin a new run, and return it. An earlier one that did not end is abandoned: no process continues it."""
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
        found: list[Entry] = []
        names = (name.removesuffix(".json") for name in storage.files(self._path()))
        listed = {int(name) for name in names if name.isdecimal()}
        if gap := min({*range(1, len(listed) + 1)} - listed, default=0):
            raise JobError(
                f"{self._path(gap)} is missing: what was processed is not known. Restore it, or look at the group and "
                f"delete {self._path()}; the next run then begins at the group's commits"
            )
        at_once = storage.read_many([self._path(number) for number in sorted(listed)])
        for text in chain(at_once, iter(lambda: storage.read(self._path(len(found) + 1)), None)):
            found.append(_parse(text, self._path(len(found) + 1), found[-1]["digest"] if found else None))
        return found


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


def resume_or_begin(
    admin: OffsetsClient, request: BacklogRequest, observed: Observed, record: Record
) -> tuple[Record, Run]:
    """Return the run to work on, and its record: in memory, if there is nothing to process.

    Raises ``JobError`` if the group has moved, a policy has to decide, or what a run has still to read is gone.
    """
    run = _resumed(record, request, observed)
    if run is not None:
        if record.ended is None:
            _check_still_there(admin, run, record, observed)
        return record, run
    backlog = plan(admin, request, observed)
    if not backlog.ranges:
        if request.start_over:
            record.abandon()
        record = Record()  # nothing to process, so nothing to continue
    return record, record.begin(request.identity(), observed.committed, backlog, request.max_records_per_slice)


def _resumed(record: Record, request: BacklogRequest, observed: Observed) -> Run | None:
    """Return the run to continue. One that has ended is continued, i.e. reported again, if it is asked for by id."""
    run = record.run
    if run is None or request.start_over or record.ended == ABANDONED or run.request != request.identity():
        return None
    if record.ended is None or request.fetched is not None:
        return run
    return run if not request.commit and not moved(run.before, observed.committed) else None


def _check_still_there(admin: OffsetsClient, run: Run, record: Record, observed: Observed) -> None:
    """Raise ``JobError`` if records that the run has still to read are not there: no further try could read them.

    Retention removed them, or the log was cut off. Of a topic that is gone, the group's commits tell.
    """
    processed = record.processed()
    left = [each for one in run.slices if one.number not in processed for each in one.ranges]
    logs = admin.log_ends({each.partition for each in left} & observed.existing, read_committed=False)
    for each in sorted(left):
        if each.partition not in logs:
            continue
        if logs[each.partition].end < each.end:
            raise JobError(
                f"{each.partition} ends at {logs[each.partition].end}, and its records up to {each.end} are left of "
                f"run {run.run_id}: it was truncated or recreated. Begin again at the group's commits by --start-over"
            )
        if logs[each.partition].start > each.start:
            raise JobError(
                f"retention removed records that run {run.run_id} has not processed: {each.partition} begins at "
                f"{logs[each.partition].start}, and {each.start} is next. Begin again at the group's commits by "
                "--start-over --on-data-loss skip-to-start"
            )


READ_NOTHING = (
    "no query on the records of {what} was reported, so the transform may have read nothing, and its offsets count as "
    "processed. Return the records (with --output), or write them within the transform, and not by an RDD"
)
HIDDEN = (
    "{hidden} unread offsets were behind the beginning of an open transaction when the run began, and are left to the "
    "next run. If no producer ends that transaction, look for it by kafka-transactions.sh find-hanging"
)
ENDED_BEFORE = (
    "run {run_id} of the same request had ended before: nothing was processed or written now, this is its result. To "
    "process its records again, with another transform or output, use --start-over"
)


class Attempt:
    """One process's work on a run; ``warn`` is called at once with each warning, which ``warnings`` keeps."""

    def __init__(
        self,
        admin: OffsetsClient,
        record: Record,
        run: Run,
        observed: Observed,
        cluster_id: str,
        warn: Callable[[str], None],
    ) -> None:
        self._admin, self._record, self._run = admin, record, run
        self._observed, self._cluster_id, self._log = observed, cluster_id, warn
        self._commits = bool(run.request["commit"])
        self._attempt = record.attempts + 1
        self.warnings: list[str] = []

    def do(self, process: Callable[[BacklogContext], bool]) -> None:
        """Process and commit every slice that the record does not show as done.

        :param process: processes the ranges of a context, and returns whether their records were read.

        Raises ``JobError`` if somebody else moved the group, and what the function and the commit raise.
        """
        done, only_commit = self._settle()
        if self._record.ended is not None:
            self._warn(ENDED_BEFORE.format(run_id=self._run.run_id))
            return
        if hidden := self._run.backlog.hidden:
            self._warn(HIDDEN.format(hidden=hidden))
        slices = self._run.slices[done:]
        self._record.attempt(slices[only_commit:])
        # Also what a run before this one processed.
        ahead = [each for one in slices[only_commit:] for each in one.ranges]
        if repeats := overlap(self._record.repeats(), ahead):
            shown = ", ".join(f"{each.partition} [{each.start}, {each.end})" for each in repeats)
            self._warn(f"an earlier attempt may have processed these records, which are processed again: {shown}")
        for one in slices:
            if not (only_commit and one is slices[0]):
                self._process(one, process, repeats=bool(overlap(one.ranges, repeats)))
            if self._commits:
                self._commit(one)
        self._record.append(ENDED, outcome=COMMITTED if self._commits else PROCESSED)

    def summary(self, failed: bool) -> dict[str, Any]:
        """Return what is known of the run now."""
        run, backlog, outcomes, done = self._run, self._run.backlog, self._record.outcomes(), self._record.processed()
        processed = [one for one in run.slices if one.number in done]
        committed = [one for one in run.slices if outcomes.get(one.number) == COMMITTED]
        open_ = [one for one in processed if outcomes.get(one.number) != COMMITTED]
        wanted = offsets_to_commit(backlog.ends, run.before)
        last = outcomes.get(open_[-1].number, "failed") if open_ and self._commits else "failed"
        counted = {where for one in committed for where in offsets_to_commit(one.ends, run.before)}
        return {
            "group_id": run.request["group_id"],
            "kafka_cluster_id": self._cluster_id,
            "outcome": last if failed else COMMITTED if self._commits else PROCESSED,
            "run_id": run.run_id,
            "attempts": self._record.attempts,
            "record": self._record.place,
            "slices": len(run.slices),
            "slices_processed": len(processed),
            "slices_committed": len(committed),
            **backlog.counts(),
            "processed": _rows(processed),
            "uncommitted": _rows(open_),
            "repeats": range_rows(self._record.repeats()),
            "before": commit_rows(run.before),
            "ends": [{**where._asdict(), "offset": end} for where, end in backlog.ends.items()],
            "to_commit": commit_rows(_commits(wanted)),
            "committed": len(counted),
        }

    def _settle(self) -> tuple[int, bool]:
        """Return the number of slices that are done, and whether the next one is only to be committed."""
        processed, outcomes = self._record.processed(), self._record.outcomes()
        expected, now = dict(self._run.before), self._observed.committed
        done, only_commit = 0, False
        for one in self._run.slices:
            if one.number not in processed:
                break
            after = expected | _commits(offsets_to_commit(one.ends, expected))
            outcome = outcomes.get(one.number)
            if self._commits and outcome != COMMITTED:
                if moved(after, now):
                    # Refused before: it is processed, and nothing else is missing. If the outcome is not known, the
                    # group may have been set back on purpose, so the slice is processed again.
                    only_commit = outcome == NOT_COMMITTED
                    break
                self._record.append(COMMIT, slice=one.number, attempt=processed[one.number], outcome=COMMITTED)
            expected = after if self._commits else expected
            done += 1
        if differ := moved(expected, now):
            fresh = self._run.request["backlog_id"] is None
            raise JobError(
                f"group {self._observed.group_id!r} is not where run {self._run.run_id} left it, in {len(differ)} "
                f"partition(s): {differ[0]}. Somebody else moved it: look at it. "
                + ("Then begin at its present commits by --start-over" if fresh else "Fetch its offsets again")
            )
        return done, only_commit

    def _process(self, one: Slice, process: Callable[[BacklogContext], bool], *, repeats: bool) -> None:
        self._record.append(PROCESSING, attempt=self._attempt, slice=one.number, ranges=range_rows(one.ranges))
        if one.ranges:
            context = BacklogContext(
                run_id=self._run.run_id,
                group_id=self._observed.group_id,
                kafka_cluster_id=self._cluster_id,
                slice=one.number,
                slices=len(self._run.slices),
                attempt=self._attempt,
                ranges=one.ranges,
                repeats=repeats,
            )
            if not process(context):
                self._warn(READ_NOTHING.format(what=f"slice {one.number} of {len(self._run.slices)}"))
        self._record.append(PROCESSED, attempt=self._attempt, slice=one.number)

    def _commit(self, one: Slice) -> None:
        try:
            written = commit_ends(self._admin, self._observed, one.ends)
        except (NotCommittedError, NotVerifiedError) as exc:
            outcome = NOT_COMMITTED if isinstance(exc, NotCommittedError) else UNVERIFIED
            # The error itself counts; a restart reads the group's commits. But where another process has taken over,
            # what it committed is why this one could not, or why the group reads differently.
            with suppress(StorageError):
                self._record.append(COMMIT, slice=one.number, attempt=self._attempt, outcome=outcome, why=str(exc))
            raise
        self._record.append(COMMIT, slice=one.number, attempt=self._attempt, outcome=COMMITTED)
        self._observed = replace(self._observed, committed={**self._observed.committed, **_commits(written)})

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self._log(text)


def _commits(offsets: Mapping[Partition, int]) -> dict[Partition, Commit]:
    return {where: Commit(offset) for where, offset in offsets.items()}


def _rows(slices: Sequence[Slice]) -> list[dict[str, Any]]:
    return range_rows(merged(each for one in slices for each in one.ranges))
