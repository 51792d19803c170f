"""Back up the committed offsets of what a plan is about to delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.links import CleanupReportLink
from airflow_kafka_groups.operators.base import StoredOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.maintenance.backup_file import Backup


class BackupGroupOffsetsOperator(StoredOperator):
    """Read the committed offsets of every planned group again, write them, read them back and compare.

    Only what is in this backup can be deleted. Repeated for the same plan, it verifies and keeps the backup that is
    there, so that a repeated run cannot replace it after groups are gone.

    :param storage_path: folder above all clusters: an absolute path or a URL (templated).
    :param cluster: name of the cluster's folder; default: the connection's id (templated).
    :param plan_id: the plan (templated).
    :param plan_digest: the plan's digest as ``PlanCleanupOperator`` returned it: another plan is refused (templated).
    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).

    Returns ``{"plan_id", "plan_digest", "path", "rows", "groups", "not_backed_up", "reasons"}``. Groups that cannot be
    read, or moved since the plan, are not backed up and hence not deleted. Fails when the plan has expired, was
    changed or is of another cluster, and when the file does not read back as it was written.
    """

    template_fields: Sequence[str] = (*StoredOperator.template_fields, "plan_id", "plan_digest")
    operator_extra_links = (CleanupReportLink(),)

    def __init__(self, *, plan_id: str, plan_digest: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_id = plan_id
        self.plan_digest = plan_digest
        self._backup: Backup | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Back up with one client."""
        from airflow_kafka_groups.hooks.arguments import read_text
        from airflow_kafka_groups.maintenance.backup import backup_groups
        from airflow_kafka_groups.maintenance.plan import check_digest, load_plan
        from airflow_kafka_groups.operators.seeing import gauges, tell_outlets

        digest = check_digest("plan_digest", self.plan_digest)
        layout = self.layout()
        plan = load_plan(layout, read_text("plan_id", self.plan_id))

        async def back_up(admin: AdminClient) -> Backup:
            return await backup_groups(admin, layout, plan, approved_digest=digest, progress=self.log_progress)

        backup = self.hook.run(back_up)
        self.log.info(
            "Backup of plan %s: %d groups, %d rows in %s", plan.plan_id, len(backup.entries), backup.rows, backup.path
        )
        reasons = first_failures(dict(backup.not_backed_up))
        for group_id, reason in reasons.items():
            self.log.warning("Not backed up, and so not deleted: %s: %s", group_id, reason)
        self._backup = backup
        counts = {"groups": len(backup.entries), "rows": backup.rows, "not_backed_up": len(backup.not_backed_up)}
        gauges(self.cluster_name, {f"backup.{name}": count for name, count in counts.items()})
        tell_outlets(self, context, {"plan_id": plan.plan_id, "path": str(backup.path), **counts})
        return {**backup.to_json(), "reasons": reasons}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Say which topics the backup is about, and which file it is; ``None`` if there is none."""
        from airflow_kafka_groups.operators.seeing import offsets_lineage

        return None if self._backup is None else offsets_lineage(self.hook, str(self._backup.path), self._backup.rows)
