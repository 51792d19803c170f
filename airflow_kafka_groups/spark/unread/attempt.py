"""One attempt at a new or recorded run: what is settled already, then each slice, recorded around each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from airflow_kafka_groups.exceptions import JobError, StorageError
from airflow_kafka_groups.observe.offset_values import Commit, Partition, commit_rows
from airflow_kafka_groups.spark.unread.commit import (
    NotCommittedError,
    NotVerifiedError,
    Observed,
    OffsetsClient,
    commit_ends,
    moved,
    offsets_to_commit,
)
from airflow_kafka_groups.spark.unread.ranges import BacklogContext, Slice, merged, overlap, range_rows
from airflow_kafka_groups.spark.unread.record import (
    ABANDONED,
    COMMIT,
    COMMITTED,
    ENDED,
    NOT_COMMITTED,
    PROCESSED,
    PROCESSING,
    UNVERIFIED,
    Record,
    Run,
)
from airflow_kafka_groups.spark.unread.request import BacklogRequest, plan


def resume_or_begin(
    admin: OffsetsClient, request: BacklogRequest, observed: Observed, record: Record
) -> tuple[Record, Run]:
    """Return the run to work on, and its record.

    :param observed: the group as it is now.
    :param record: the group's record. A run without records to process gets one of its own, in memory.

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
    "processed. Return the records (with --output), or write them within the transform. Nothing is reported of rows of "
    "Spark's that are read as an RDD, e.g. by foreachPartition"
)
HIDDEN = (
    "{hidden} unread offsets were behind the beginning of an open transaction when the run began, and are left to the "
    "next run. If no producer ends that transaction, look for it by kafka-transactions.sh find-hanging"
)
IF_REPEATED = ", nor where a sink passes over a slice that it has of an earlier attempt: see that it has this one"
ENDED_BEFORE = (
    "run {run_id} of the same request had ended before: nothing was processed or written now, this is its result. To "
    "process its records again, with another transform or output, use --start-over"
)


class Attempt:
    """One process's work on a run.

    :param observed: the group as it is now; its commits are followed while this attempt commits.
    :param warn: called at once with each warning, which ``warnings`` keeps.
    """

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
                warning = READ_NOTHING.format(what=f"slice {one.number} of {len(self._run.slices)}")
                self._warn(warning + IF_REPEATED * repeats)
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
