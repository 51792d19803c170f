"""The operator that lists the committed offsets of many groups in a few requests (KIP-709), as a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError, SnapshotError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_group_ids, read_patterns, read_switch
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.operators.support.base import StoredOperator, collection_paused, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.observe.snapshot.summary import SnapshotSummary


class ListGroupOffsetsOperator(StoredOperator):
    """Write a snapshot: every group with its state, committed offsets and log ends, as Parquet.

    :param group_ids: only these groups; duplicates are removed. The clean-up does not judge such a snapshot
        (templated).
    :param include: patterns of the groups. Default: all (templated).
    :param exclude: patterns of the groups to leave out. Default: none (templated).
    :param require_complete: fail the task if a broker did not answer the listing, so that groups may be missing.
        Default true. The snapshot is stored, but never judged.
    :param fail_on_error: fail the task if any group could not be read. Default false: it is in the snapshot with the
        reason, and never judged.

    Returns the snapshot's summary: ``snapshot_id``, ``manifest``, ``data``, ``groups``, ``failed_groups``, ``rows``,
    ``states``, ``types`` and more. Fails if a group in ``group_ids`` does not exist, and according to
    ``require_complete`` and ``fail_on_error``.
    """

    mended_by_retry = (SnapshotError,)  # a broker did not answer, which may be back at the next try

    group_ids = Argument(optional(read_group_ids))
    include = Argument(read_patterns)
    exclude = Argument(read_patterns)
    require_complete = Argument(read_switch, templated=False)
    fail_on_error = Argument(read_switch, templated=False)

    @sets_arguments
    def __init__(
        self,
        *,
        group_ids: Sequence[str] | str | None = None,
        include: Sequence[str] | str = ("*",),
        exclude: Sequence[str] | str = (),
        require_complete: bool = True,
        fail_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._summary: SnapshotSummary | None = None

    @collection_paused
    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot with one client."""
        from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
        from airflow_kafka_groups.observe.snapshot.collect import take_snapshot

        layout = self.layout()

        async def snapshot(admin: GuardedAdminClient) -> SnapshotSummary:
            return await take_snapshot(
                admin,
                layout,
                group_ids=self.group_ids,
                include=self.include,
                exclude=self.exclude,
                protected=self.hook.settings.protected_groups,
                airflow_run=str(context.get("run_id", "")),
                offsets_retention_minutes=await self._offsets_retention(admin) if self.group_ids is None else None,
                view=partial(read_view_for_snapshot, admin),
                progress=self.log_progress,
            )

        summary = self.hook.run(snapshot)
        self._report(context, summary)
        self._check(summary)
        return {**summary.to_json(), "failed": first_failures(dict(summary.failed))}

    async def _offsets_retention(self, admin: GuardedAdminClient) -> int | None:
        """Return the brokers' offsets retention in minutes; ``None``, and a line in the log, if it is not known."""
        try:
            retention = await admin.offsets_retention()
        except KafkaGroupsError as error:
            self.log.info("The brokers' offsets retention is not known: %s", error)
            return None
        for broker_id, why in retention.errors.items():
            self.log.info("The offsets retention of broker %s is not known: %s", broker_id, why)
        return retention.minutes

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage from the topics to the snapshot's files; ``None`` if there is no snapshot."""
        from airflow_kafka_groups.operators.support.telemetry import offsets_lineage

        summary = self._summary
        return None if summary is None else offsets_lineage(self.hook, summary.data, summary.rows)

    def _report(self, context: Context, summary: SnapshotSummary) -> None:
        from airflow_kafka_groups.operators.support.telemetry import gauges, update_asset_events

        self._summary = summary
        for broker, groups in summary.coordinators.items():
            self.log.info("Broker %s: %d groups", broker, groups)
        counts = {
            "groups": summary.groups,
            "failed_groups": summary.failed_groups,
            "partitions": summary.partitions,
        }
        if self.group_ids is None:  # groups that were named are not those of the cluster, which the gauges have
            # A server shows a gauge that is not sent as it was.
            every = dict.fromkeys(map(str, GroupState), 0) | dict(summary.states)
            states = {f"groups.{state}": count for state, count in every.items()}
            of_snapshot = {f"snapshot.{name}": count for name, count in counts.items()}
            gauges(self.cluster_name, {"groups.all": summary.groups, **states, **of_snapshot})
        facts = {**counts, "states": dict(summary.states), "complete": summary.complete}
        update_asset_events(self, context, {"snapshot_id": summary.snapshot_id, "manifest": summary.manifest, **facts})

    def _check(self, summary: SnapshotSummary) -> None:
        self.log.info(
            "Snapshot %s: %d groups, %d rows, %d groups unreadable, in %.1f s",
            summary.snapshot_id,
            summary.groups,
            summary.rows,
            summary.failed_groups,
            summary.seconds,
        )
        if summary.not_found:
            raise ConfigurationError("group_ids", list(summary.not_found), "these groups do not exist on the cluster")
        if self.require_complete and not summary.complete:
            missing = "; ".join(
                f"{f'broker {where}' if where.isdecimal() else where}: {why}"
                for where, why in summary.missing_brokers.items()
            )
            raise SnapshotError(
                f"snapshot {summary.snapshot_id} may lack groups ({missing}). Run the "
                "task again when all brokers are available; this snapshot is stored but never judged"
            )
        if self.fail_on_error and summary.failed_groups:
            failed = {group_id: KafkaGroupsError(reason) for group_id, reason in summary.failed.items()}
            raise GroupsFailedError(failed, summary.groups, summary.failed_groups)
