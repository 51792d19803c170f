"""Prune the topics that live groups stopped reading, where every doubt keeps a topic, and this package's old files."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import Context

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer, read_number, read_text
from airflow_kafka_groups.operators.deletion import _DeletingOperator
from airflow_kafka_groups.operators.plan import _PlanningOperator
from airflow_kafka_groups.operators.support.base import FIRST_FAILURES, DryRunOperator, update_asset_events
from airflow_kafka_groups.shown import one_line, storable


class PlanTopicPruningOperator(_PlanningOperator):
    """Find topics that live groups have stopped reading, and write the plan of whose offsets to delete.

    Nothing is deleted. A topic is planned if, for the complete idle time, no member of its group subscribed to it and
    its offsets did not move, while those of another topic did. Only groups that snapshots saw Stable can be judged.
    Take snapshots on a schedule (``ListGroupOffsetsOperator``).

    :param snapshot_id: the newest snapshot to judge by. Default: the newest complete one that is not of named groups.
    :param policy_file: a policy file: an absolute path or a URL. Groups are pruned whose rule has the action
        ``prune-topics``; patterns and limits here narrow it further. Default: none: all groups that match may be.
    :param min_idle_seconds: without a policy file: how long a topic must have been without subscription and movement,
        such as ``"36h"``, or seconds. Default 7d.
    :param min_observations: without a policy file: number of complete snapshots that show it, at least 2. Default 2.
    :param max_gap_seconds: the longest time between two snapshots that show the subscriptions, such as ``"2d"``, or
        seconds; 0 for no limit. Default 2d.

    Returns ``{"plan_id", "plan_path", "digest", "snapshot_id", "expires_at", "counts", "warnings", "first_topics"}``.
    Fails if the snapshot is incomplete or too old.
    """

    def __init__(self, *, max_gap_seconds: float | str | timedelta = 2 * 86_400, **kwargs: Any) -> None:
        super().__init__(max_gap_seconds=max_gap_seconds, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.plan.plan_topics import plan_topics

        floors, layout = self.floors(), self.layout()
        plan, path = plan_topics(
            layout, self.policy(), floors, snapshot_id=self.snapshot_id, file=self.open_policy_file()
        )
        summary = self.emit_plan(context, plan, path, "prune_plan")
        first = plan.groups[:FIRST_FAILURES]
        for item in first:
            self.log.info("To prune: %s (%s)", one_line(item.name), item.reason)
        names = ("group_id", "topic", "idle_seconds", "reason", "partitions")
        return {**summary, "first_topics": storable([{name: getattr(item, name) for name in names} for item in first])}


class PruneTopicOffsetsOperator(_DeletingOperator):
    """Delete the committed offsets of a plan's topics, while their groups live on.

    The offsets are backed up first. Each group is read again a moment before: a topic is kept if a member subscribes to
    it, if its offsets moved, if it was pruned or found in use before, if its group is not Stable, or if anything of it
    cannot be read. The journal of deletions has the intent before a request leaves, and the outcome after it.
    Afterwards the offsets are looked for once more. ``RestoreGroupOffsetsOperator`` undoes it, while unused.

    :param plan_id: the plan.
    :param plan_digest: its digest as ``PlanTopicPruningOperator`` returned it; another plan is refused.
    :param dry_run: make the checks of each topic; back up and delete nothing. Default true.
    :param topics_per_second: the most topics of groups pruned a second, on average; 0 for no limit. Default 0.

    Returns ``{"audit_path", "dry_run", "counts", "partitions", "kept_reasons", "kept": {topic: reason}, "verification",
    …}`` with the first 20 kept topics. Fails before anything is deleted when the connection is read-only, the plan is
    of another cluster, was changed, is not approved, has expired or names a protected group. Fails after writing the
    record when a topic could not be pruned, nobody knows whether it was, the lease was lost on the way, or the task was
    killed: the topics that were left are kept.
    """

    counter = "pruning"

    plan_id = Argument(read_text)
    plan_digest = Argument(read_text)
    topics_per_second = Argument(read_number)

    def __init__(
        self,
        *,
        plan_id: str,
        plan_digest: str,
        dry_run: bool | str = True,
        topics_per_second: float | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dry_run=dry_run, **kwargs)

    def delete(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.deletion.request import DeletionLimits
        from airflow_kafka_groups.change.deletion.run import TOPIC_CHUNK_SIZE
        from airflow_kafka_groups.ledger.deletion_plan import load_plan
        from airflow_kafka_groups.ledger.outcomes import Outcome

        plan = load_plan(self.layout(), self.plan_id, prunes=True)
        deletion = self.by_plan(plan.plan_id, self.plan_digest, prunes=True)
        limits = DeletionLimits(chunk_size=TOPIC_CHUNK_SIZE, groups_per_second=self.topics_per_second or None)
        result = self.carry_out_deletion(context, deletion, limits)
        report = result.report
        done = set(report.ids(Outcome.WOULD_DELETE if report.dry_run else Outcome.DELETED))
        pruned = sum(item.partitions for item in plan.groups if item.name in done)
        return self.conclude(context, result, "Pruning", partitions=pruned)


_read_days = partial(read_duration, minimum=1, maximum=36_500, unit="days")


class PruneFilesOperator(DryRunOperator):
    """Remove this package's files that are older than a number of days. A dry run by default.

    Files that belong together are removed together: a snapshot with its verdicts, a plan with its backup, records and
    report. The newest of each kind are always kept, and so are files that this package did not write. No cluster is
    accessed. A backup is the only copy of deleted groups' offsets: keep clean-ups as long as a restore may be needed.

    :param snapshot_days: age limit of snapshots, in days or such as ``"8w"``: longer than the idle time of stale
        groups, which they show; a snapshot stays for 32 days in any case. Default 60.
    :param cleanup_days: age limit of plans, reports and backups, the only copy of what was deleted. Default 730.
    :param change_days: age limit of records of changed offsets, of long listings and of backlogs for Spark in days: a
        task that set offsets fails when it is cleared later. Default 365.
    :param keep_newest: number of each kind that are kept regardless of age, at least 1. Default 10.
    :param dry_run: only report what would be removed. Default true.
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default``.

    Returns ``{"dry_run", "removed": {kind: count}, "files", "kept": {kind: count}, "foreign": {set: reason}}`` with the
    first 20 sets that are old but kept because they contain something that this package did not write. Fails, and
    removes nothing, if nothing newer than the shortest limit or 32 days is there: this machine's clock may be ahead.
    If it is not, take a snapshot first.
    """

    snapshot_days = Argument(_read_days)
    cleanup_days = Argument(_read_days)
    change_days = Argument(_read_days)
    keep_newest = Argument(partial(read_integer, minimum=1))

    def __init__(
        self,
        *,
        snapshot_days: float | str = 60,
        cleanup_days: float | str = 730,
        change_days: float | str = 365,
        keep_newest: int | str = 10,
        dry_run: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(dry_run=dry_run, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
        from airflow_kafka_groups.storage.layout import utc_now

        dry_run = self.dry_run
        limits = PruningLimits(
            days=dict.fromkeys(FileKind, self.change_days)
            | {FileKind.SNAPSHOT: self.snapshot_days, FileKind.CLEANUP: self.cleanup_days},
            keep_newest=self.keep_newest,
        )
        report = prune(self.layout(), limits, now=utc_now(), dry_run=dry_run)
        for kind, ids in report.removed.items():
            if ids:
                verb = "Would remove" if dry_run else "Removed"
                self.log.info("%s %d of kind %s, %s to %s", verb, len(ids), kind, ids[0], ids[-1])
        found = report.to_json()
        update_asset_events(self, context, {"dry_run": dry_run, "files": report.files})
        return {**found, "foreign": self.warn_of("Kept", found["foreign"])}
