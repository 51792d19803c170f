"""Remove old files: snapshots, plans, backups, reports, records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import read_flag, read_integer, read_number
from airflow_kafka_groups.operators.support.base import StoredOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

_read_days = partial(read_number, minimum=1, maximum=36_500)


class PruneFilesOperator(StoredOperator):
    """Remove this package's files that are older than their retention. A dry run unless told otherwise.

    Files that belong together go together: a snapshot with its verdicts, a plan with its backup, records and report.
    The newest of each kind are kept whatever their age, and so is whatever this package did not write. No cluster is
    asked. A backup is the only copy of the offsets of what was deleted: keep clean-ups as long as somebody may ask.

    :param storage_path: folder above all clusters: an absolute path or a URL (templated).
    :param cluster: name of the cluster's folder; default: the connection's id (templated).
    :param snapshot_days: how long snapshots are kept, in days, at least 1; longer than groups have to be idle to be
        stale. Default 60 (templated).
    :param cleanup_days: how long plans, backups, audit records and reports are kept, in days. Default 730 (templated).
    :param change_days: how long records of changed offsets, and long listings, are kept, in days. Default 365
        (templated).
    :param keep_newest: how many of each kind are kept whatever their age, at least 1, default 10 (templated).
    :param dry_run: say what would be removed and remove nothing; default true (templated).
    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default``; only its id is used (templated).

    Returns ``{"dry_run", "removed": {kind: count}, "files", "kept": {kind: count}, "foreign": {set: reason}}`` with the
    first 20 sets that are old and were left alone because something in them is not of this package.
    """

    ui_color = "#e4e4e4"

    snapshot_days = Argument(_read_days)
    cleanup_days = Argument(_read_days)
    change_days = Argument(_read_days)
    keep_newest = Argument(partial(read_integer, minimum=1))
    # Hides BaseOperator.dry_run(), which Airflow 3 calls nowhere; the word is the one people look for.
    dry_run = Argument(read_flag)  # type: ignore[assignment]

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
        super().__init__(**kwargs)
        self.snapshot_days = snapshot_days
        self.cleanup_days = cleanup_days
        self.change_days = change_days
        self.keep_newest = keep_newest
        self.dry_run = dry_run

    def execute(self, context: Context) -> dict[str, Any]:
        """Look at the files, and remove the old ones."""
        from airflow_kafka_groups.maintenance.file_pruning import FileKind, PruningLimits, prune
        from airflow_kafka_groups.maintenance.storage import utc_now
        from airflow_kafka_groups.operators.support.telemetry import tell_outlets

        dry_run = self.dry_run
        retention = PruningLimits(
            days={
                FileKind.SNAPSHOT: self.snapshot_days,
                FileKind.CLEANUP: self.cleanup_days,
                FileKind.CHANGE: self.change_days,
                FileKind.LISTING: self.change_days,
            },
            keep_newest=self.keep_newest,
        )
        report = prune(self.layout(), retention, now=utc_now(), dry_run=dry_run)
        for kind, ids in report.removed.items():
            if ids:
                verb = "Would remove" if dry_run else "Removed"
                self.log.info("%s %d of kind %s, %s to %s", verb, len(ids), kind, ids[0], ids[-1])
        found = report.to_json()
        for name, reason in first_failures(found["foreign"]).items():
            self.log.warning("Left alone: %s: %s", name, reason)
        tell_outlets(self, context, {"dry_run": dry_run, "files": report.files})
        return {**found, "foreign": first_failures(found["foreign"])}
