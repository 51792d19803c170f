"""The operator that tests whether a backup can be restored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_integer, read_text
from airflow_kafka_groups.operators.support.actor import actor_of, task_run_of
from airflow_kafka_groups.operators.support.base import StoredOperator, collection_paused, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context


class RestoreDrillOperator(StoredOperator):
    """Restore groups of a backup into scratch groups, compare them with the backup, and delete the scratch groups.

    No other group is changed: a scratch group must not exist before, and is deleted only while it is empty and contains
    exactly the restored offsets. A retry, or the task cleared, first removes those that a killed try left behind.

    :param plan_id: the backup: its plan's id, as returned by ``BackupGroupOffsetsOperator`` (templated).
    :param max_groups: maximum number of groups to restore, those with the most partitions first. Default 20
        (templated).
    :param scratch_prefix: the prefix of the scratch groups' names. Default ``airflow-kafka-groups-drill.`` (templated).

    Returns ``{"backup_id", "restored", "partitions", "skipped", "failed", "left"}``; ``skipped`` are partitions whose
    topic was deleted or recreated, or lacks the offset by now. Fails if the backup is damaged, empty or of another
    cluster, if restored offsets differ, if a partition's log cannot be read, if nothing at all can be restored, or if a
    scratch group may still exist.
    """

    plan_id = Argument(read_text)
    max_groups = Argument(partial(read_integer, minimum=1))
    scratch_prefix = Argument(read_text)

    @sets_arguments
    def __init__(
        self,
        *,
        plan_id: str,
        max_groups: int | str = 20,
        scratch_prefix: str = "airflow-kafka-groups-drill.",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    @collection_paused
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the drill with one client."""
        from airflow_kafka_groups.change.restore.drill import rehearse_restore
        from airflow_kafka_groups.operators.support.telemetry import gauges, update_asset_events

        backup_id, groups, prefix, actor = self.plan_id, self.max_groups, self.scratch_prefix, actor_of(context)
        layout = self.site_layout()
        self.hook.settings.require_writable()
        report = self.hook.run(
            lambda admin: rehearse_restore(
                admin,
                layout,
                backup_id,
                groups=groups,
                scratch_prefix=prefix,
                task_run=task_run_of(actor) if "run_id" in actor else "",
                progress=self.log_progress,
            )
        )
        counts = {name: len(getattr(report, name)) for name in ("restored", "skipped", "failed", "left")}
        self.log.info("Drill with backup %s: %s, %d partitions", backup_id, counts, report.partitions)
        gauges(self.cluster_name, {f"drill.{name}": count for name, count in counts.items()})
        update_asset_events(self, context, {"backup_id": backup_id, **counts})
        if report.failed or report.left:
            failed, left = first_failures(dict(report.failed)), first_failures(dict(report.left))
            raise MaintenanceError(
                f"the drill with backup {backup_id} failed; differing groups: {failed}; scratch groups left: {left}"
            )
        return {**report.to_json(), "skipped": first_failures(dict(report.skipped))}
