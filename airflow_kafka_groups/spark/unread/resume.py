"""The run that an attempt works on: the recorded one, if it is asked for and can still be read, or a new one."""

from __future__ import annotations

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.unread.commit import Observed, moved
from airflow_kafka_groups.spark.unread.group_admin import GroupAdmin
from airflow_kafka_groups.spark.unread.record import ABANDONED, Record, Run
from airflow_kafka_groups.spark.unread.request import BacklogRequest, plan


def resume_or_begin(
    admin: GroupAdmin, request: BacklogRequest, observed: Observed, record: Record
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


def _check_still_there(admin: GroupAdmin, run: Run, record: Record, observed: Observed) -> None:
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
