"""Operators that back up committed offsets, and that test whether a backup can be restored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import optional, read_integer, read_text, read_text_or_nothing, request_of
from airflow_kafka_groups.hooks.links import CleanupReportLink
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.operators.support.base import (
    SelectingOperator,
    StoredOperator,
    first_failures,
    gauges,
    update_asset_events,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


class BackupGroupOffsetsOperator(SelectingOperator, StoredOperator):
    """Back up the committed offsets of groups, and verify the backup by reading it back.

    With ``plan_id`` and ``plan_digest``: the groups of a plan. Only groups in this backup can be deleted. Repeated for
    the same plan, it verifies and keeps the existing backup, so that a repeated run cannot replace it after groups were
    deleted. Without a plan: groups by name or pattern, in use or not, as they are at the moment. No deletion accepts
    such a backup; ``RestoreGroupOffsetsOperator`` accepts both kinds.

    :param plan_id: the plan.
    :param plan_digest: the plan's digest as returned by ``PlanCleanupOperator``; another plan is refused.
    :param group_ids: without a plan: the groups; duplicates are ignored. Default: those of the cluster that match.

    Returns ``{"plan_id", "plan_digest", "path", "rows", "groups", "not_backed_up", "reasons"}``; without a plan,
    ``plan_id`` is the backup's own id. Groups that cannot be read, or moved since the plan, are not backed up and
    therefore not deleted. Fails if the plan has expired, was changed or belongs to another cluster, if a broker did not
    answer the listing, and if the file read back differs.
    """

    operator_extra_links = (CleanupReportLink(),)

    plan_id = Argument(optional(read_text))
    plan_digest = Argument(optional(read_text))

    def __init__(
        self,
        *,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        group_ids: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_ids=group_ids, **kwargs)
        if (plan_id is None) != (plan_digest is None):
            raise ConfigurationError("plan_id, plan_digest", None, "pass both or none")
        if plan_id is not None and group_ids is not None:
            raise ConfigurationError("plan_id, group_ids", None, "pass at most one of them")

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up

        every = self.plan_id is None and self.group_ids is None
        request = request_of(BackupRequest, self, groups=self.matching if every else GroupFilter())
        layout, protected = self.site_layout(), self.hook.settings.protected_groups
        backup = self.hook.run(
            lambda admin: back_up(admin, layout, request, protected=protected, progress=self.log_progress)
        )
        self.log.info(
            "Backup %s: %d groups, %d rows in %s", backup.plan_id, len(backup.entries), backup.rows, backup.path
        )
        reasons = self.warn_of("Not backed up", backup.failures)
        counts = {"groups": len(backup.entries), "rows": backup.rows, "not_backed_up": len(backup.failures)}
        gauges(self.cluster_name, {f"backup.{name}": count for name, count in counts.items()})
        update_asset_events(self, context, {"plan_id": backup.plan_id, "path": str(backup.path), **counts})
        return {**backup.to_json(), "reasons": reasons}


class RestoreDrillOperator(StoredOperator):
    """Rehearse a restore or a migration: commit its offsets to scratch groups, compare, and delete the scratch groups.

    No other group is changed: scratch groups have new names, and each is deleted only while it is empty and contains
    exactly the restored offsets. Those that a killed task leaves behind have no members, so brokers forget them.

    :param plan_id: the backup: its plan's id, as returned by ``BackupGroupOffsetsOperator``; or with ``plan_digest``,
        the plan of a migration.
    :param plan_digest: the SHA-256 of that plan, which the dry run of ``MigrateGroupOffsetsOperator`` returned.
        Default: a backup is rehearsed.
    :param max_groups: maximum number of groups to restore, those with the most partitions first. Default 20.
    :param scratch_prefix: the prefix of the scratch groups' names. Default ``airflow-kafka-groups-drill.``.

    Returns ``{"backup_id", "restored", "partitions", "skipped", "failed", "left"}``; ``skipped`` are partitions whose
    topic was deleted or recreated, or lacks the offset by now, or that the plan refuses. Fails if the backup or the
    plan is damaged, empty or of another cluster, if offsets read back differently, if a partition's log cannot be read,
    if nothing at all can be committed, or if a scratch group may still exist.
    """

    plan_id = Argument(read_text)
    plan_digest = Argument(optional(read_text_or_nothing))
    max_groups = Argument(partial(read_integer, minimum=1))
    scratch_prefix = Argument(read_text)

    def __init__(
        self,
        *,
        plan_id: str,
        plan_digest: str | None = None,
        max_groups: int | str = 20,
        scratch_prefix: str = "airflow-kafka-groups-drill.",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.migrate import MigrateRequest
        from airflow_kafka_groups.change.restore.drill import DrillReport, rehearse
        from airflow_kafka_groups.change.restore.from_backup import RestoreRequest

        backup_id, layout, most, prefix = self.plan_id, self.site_layout(), self.max_groups, self.scratch_prefix
        self.hook.settings.require_writable()
        request: RestoreRequest | MigrateRequest = RestoreRequest(plan_id=backup_id)
        if self.plan_digest is not None:
            request = MigrateRequest(plan_id=backup_id, plan_digest=self.plan_digest)

        async def drill(admin: MaintenanceClient) -> DrillReport:
            proposed = await request.rehearse(admin, layout, most)
            return await rehearse(admin, backup_id, proposed, scratch_prefix=prefix, progress=self.log_progress)

        report = self.hook.run(drill)
        counts = {name: len(getattr(report, name)) for name in ("restored", "skipped", "failed", "left")}
        self.log.info("Drill with %s: %s, %d partitions", backup_id, counts, report.partitions)
        gauges(self.cluster_name, {f"drill.{name}": count for name, count in counts.items()})
        update_asset_events(self, context, {"backup_id": backup_id, **counts})
        if report.failed or report.left:
            failed, left = first_failures(dict(report.failed)), first_failures(dict(report.left))
            raise MaintenanceError(
                f"the drill with {backup_id} failed; differing groups: {failed}; scratch groups left: {left}"
            )
        return {**report.to_json(), "skipped": first_failures(dict(report.skipped))}
