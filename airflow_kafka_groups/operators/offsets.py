"""Operators that list the committed offsets of many groups in a few requests (KIP-709), and measure their lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError, SnapshotError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import read_flag, read_integer
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.operators.support.base import (
    SelectingOperator,
    StoredOperator,
    actor_of,
    first_failures,
    gauges,
    update_asset_events,
)
from airflow_kafka_groups.shown import one_line, storable

if TYPE_CHECKING:
    from airflow_kafka_groups.observe.snapshot.collect import SnapshotSummary


class ListGroupOffsetsOperator(SelectingOperator, StoredOperator):
    """Write a snapshot: every group with its state, committed offsets and log ends, as Parquet.

    :param group_ids: only these groups, whose snapshot no clean-up judges. Default: those of the cluster that match.
    :param require_complete: fail the task if a broker did not answer the listing, so that groups may be missing.
        Default true. The snapshot is stored, but never judged (not templated).
    :param fail_on_error: fail the task if any group could not be read. Default false: it is in the snapshot with the
        reason, and never judged (not templated).

    Returns the snapshot's summary: ``snapshot_id``, ``manifest``, ``data``, ``groups``, ``failed_groups``, ``rows``,
    ``states``, ``types`` and more. Fails if a group in ``group_ids`` does not exist, and according to
    ``require_complete`` and ``fail_on_error``.
    """

    mended_by_retry = (SnapshotError,)  # a broker did not answer, which may be back at the next try

    require_complete = Argument(read_flag, templated=False)
    fail_on_error = Argument(read_flag, templated=False)

    def __init__(self, *, require_complete: bool = True, fail_on_error: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.snapshot import SnapshotRequest, snapshot_groups

        layout = self.layout()
        request = SnapshotRequest(
            group_ids=self.group_ids,
            groups=self.matching,
            protected=self.hook.settings.protected_groups,
            taken_by=str(context.get("run_id", "")),
            dag_id=actor_of(context).get("dag_id"),
        )
        summary = self.hook.run(
            lambda admin: snapshot_groups(
                admin, layout, request, notice=lambda text: self.log.info("%s", text), progress=self.log_progress
            )
        )
        self._report(context, summary)
        if summary.not_found:
            raise ConfigurationError("group_ids", list(summary.not_found), "these groups do not exist on the cluster")
        if self.require_complete and not summary.complete:
            brokers = summary.missing_brokers.items()
            missing = "; ".join(f"{f'broker {at}' if at.isdecimal() else at}: {why}" for at, why in brokers)
            remedy = "Run the task again when all brokers are available; this snapshot is stored but never judged"
            raise SnapshotError(f"snapshot {summary.snapshot_id} may lack groups ({missing}). {remedy}")
        if self.fail_on_error and summary.failed_groups:
            failed = {group_id: KafkaGroupsError(reason) for group_id, reason in summary.failed.items()}
            raise GroupsFailedError(failed, summary.groups, summary.failed_groups)
        return {**summary.to_json(), "failed": first_failures(dict(summary.failed))}

    def _report(self, context: Context, summary: SnapshotSummary) -> None:
        for broker, groups in summary.coordinators.items():
            self.log.info("Broker %s: %d groups", broker, groups)
        counts = {"groups": summary.groups, "failed_groups": summary.failed_groups, "partitions": summary.partitions}
        if self.group_ids is None:  # groups that were named are not those of the cluster, which the gauges have
            # A server shows a gauge that is not sent as it was.
            every = dict.fromkeys(map(str, GroupState), 0) | dict(summary.states)
            states = {f"groups.{state}": count for state, count in every.items()}
            of_snapshot = {f"snapshot.{name}": count for name, count in counts.items()}
            gauges(self.cluster_name, {"groups.all": summary.groups, **states, **of_snapshot})
        facts = {**counts, "states": dict(summary.states), "complete": summary.complete}
        update_asset_events(self, context, {"snapshot_id": summary.snapshot_id, "manifest": summary.manifest, **facts})
        said = "Snapshot %s: %d groups, %d rows, %d groups unreadable, in %.1f s"
        names = ("snapshot_id", "groups", "rows", "failed_groups", "seconds")
        self.log.info(said, *(getattr(summary, name) for name in names))


FIRST_GROUPS = 100
"""The number of groups in the XCom, those with the largest lag first."""


class ListGroupLagOperator(SelectingOperator):
    """Measure the lag of all or given groups, and report those with more than ``max_lag``.

    :param max_lag: the largest acceptable lag of a group, in messages over all its partitions. Default 0.
    :param fail_if_lagging: fail the task if a group lags more. Default false: it is in the result (not templated).

    Returns ``{"groups", "total_lag", "total_lost", "lagging", "lagging_groups": {group: lag}, "unknown",
    "unknown_groups": {group: reason}}``, with the 100 most lagging groups and the first 20 with unknown lag: they
    cannot be read, a commit is beyond the end, a log end is unknown, or a group in ``group_ids`` has no committed
    offset or does not exist. ``total_lost`` counts the records that were removed unread: they are no lag, since nobody
    can read them. Fails if a broker did not answer the listing of all groups.
    """

    max_lag = Argument(read_integer)
    fail_if_lagging = Argument(read_flag, templated=False)

    def __init__(self, *, max_lag: int | str = 0, fail_if_lagging: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.observe.readings import measure_lag

        selection = self.selection(self.group_ids)
        read = self.hook.run(lambda admin: measure_lag(admin, selection))
        if read.warning is not None:
            self.log.warning("%s", read.warning)
        found, unknown = read.groups.found, dict(read.unknown)
        lags = [lag.messages or 0 for lag in read.lags if lag.group_id not in unknown]
        lagging = {lag.group_id: lag.messages or 0 for lag in read.above(self.max_lag)}
        counts = {
            "groups": len(found),
            "total_lag": sum(lags),
            "total_lost": sum(lag.lost or 0 for lag in found.succeeded.values()),
            "lagging": len(lagging),
            "unknown": len(unknown),
        }
        gauges(
            self.kafka_groups_conn_id,
            {
                "lag.total": counts["total_lag"] if lags or not unknown else None,
                "lag.max": max(lags, default=None if unknown else 0),
                "lag.lagging_groups": len(lagging),
                "lag.unknown_groups": len(unknown),
            },
        )
        update_asset_events(self, context, counts)
        self.log.info("%(groups)d groups, lag %(total_lag)d; %(lagging)d lag too much, %(unknown)d unknown", counts)
        for group_id in list(lagging)[:20]:
            self.log.warning("Lag of %s: %d messages", one_line(group_id), lagging[group_id])
        if lagging and self.fail_if_lagging:
            too_much = {id_: KafkaGroupsError(f"lag {n}, must be at most {self.max_lag}") for id_, n in lagging.items()}
            raise GroupsFailedError(too_much, len(found))
        first = {group_id: lagging[group_id] for group_id in list(lagging)[:FIRST_GROUPS]}
        return {**counts, "lagging_groups": storable(first), "unknown_groups": first_failures(unknown)}
