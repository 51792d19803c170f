"""The operator that removes old snapshots, plans, backups, reports and records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer
from airflow_kafka_groups.operators.support.base import DryRunOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

_read_days = partial(read_duration, minimum=1, maximum=36_500, unit="days")


class PruneFilesOperator(DryRunOperator):
    """Remove this package's files that are older than a number of days. A dry run by default.

    Files that belong together are removed together: a snapshot with its verdicts, a plan with its backup, records and
    report. The newest of each kind are always kept, and so are files that this package did not write. No cluster is
    accessed. A backup is the only copy of deleted groups' offsets: keep clean-ups as long as a restore may be needed.

    :param snapshot_days: age limit of snapshots, in days or such as ``"8w"``: at least a day, and longer than the idle
        time of stale groups, which they show. Default 60 (templated).
    :param cleanup_days: age limit of plans, backups, records and reports in days: a backup is the only copy of what was
        deleted. Default 730 (templated).
    :param change_days: age limit of records of changed offsets, of long listings and of backlogs for Spark in days;
        records of tasks that set offsets stay for a year at least. Default 365 (templated).
    :param keep_newest: number of each kind that are kept regardless of age, at least 1. Default 10 (templated).
    :param dry_run: only report what would be removed. Default true (templated).
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default`` (templated).

    Returns ``{"dry_run", "removed": {kind: count}, "files", "kept": {kind: count}, "foreign": {set: reason}}`` with the
    first 20 sets that are old but kept because they contain something that this package did not write. Fails, and
    removes nothing, if nothing newer than the shortest limit or 32 days is there: this machine's clock may be ahead.
    If it is not, take a snapshot first.
    """

    ui_color = "#e4e4e4"

    snapshot_days = Argument(_read_days)
    cleanup_days = Argument(_read_days)
    change_days = Argument(_read_days)
    keep_newest = Argument(partial(read_integer, minimum=1))

    @sets_arguments
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
        """Find the files, and remove the old ones."""
        from airflow_kafka_groups.change.file_pruning.file_sets import FileKind
        from airflow_kafka_groups.change.file_pruning.prune import PruningLimits, prune
        from airflow_kafka_groups.operators.support.telemetry import update_asset_events
        from airflow_kafka_groups.storage.layout import utc_now

        dry_run = self.dry_run
        limits = PruningLimits(
            days={
                FileKind.SNAPSHOT: self.snapshot_days,
                FileKind.CLEANUP: self.cleanup_days,
                FileKind.CHANGE: self.change_days,
                FileKind.LISTING: self.change_days,
                FileKind.BACKLOG: self.change_days,
            },
            keep_newest=self.keep_newest,
        )
        report = prune(self.layout(), limits, now=utc_now(), dry_run=dry_run)
        for kind, ids in report.removed.items():
            if ids:
                verb = "Would remove" if dry_run else "Removed"
                self.log.info("%s %d of kind %s, %s to %s", verb, len(ids), kind, ids[0], ids[-1])
        found = report.to_json()
        for name, reason in first_failures(found["foreign"]).items():
            self.log.warning("Kept: %s: %s", name, reason)
        update_asset_events(self, context, {"dry_run": dry_run, "files": report.files})
        return {**found, "foreign": first_failures(found["foreign"])}
