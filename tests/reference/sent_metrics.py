"""All metrics that operators send through Airflow.

``tests/exhaustive/operators/test_telemetry.py`` runs the operators and compares what they send with this list, in both
directions.
"""

from __future__ import annotations

from typing import NamedTuple


class SentMetric(NamedTuple):
    """A metric.

    :param name: its name after ``kafka_groups.<cluster>.``, with ``<…>`` for a part that varies.
    :param kind: ``gauge`` or ``counter``.
    :param operator: the operator that sends it.
    :param meaning: one sentence.
    """

    name: str
    kind: str
    operator: str
    meaning: str


SENT_METRICS = (
    SentMetric(
        "groups.all",
        "gauge",
        "ListGroupOffsetsOperator",
        "Groups of the snapshot. No snapshot of named groups sends this or the next four.",
    ),
    SentMetric(
        "groups.<state>",
        "gauge",
        "ListGroupOffsetsOperator",
        "Groups in a state: `Empty`, `Stable` …; 0 if there are none.",
    ),
    SentMetric("snapshot.groups", "gauge", "ListGroupOffsetsOperator", "Groups of the snapshot."),
    SentMetric("snapshot.failed_groups", "gauge", "ListGroupOffsetsOperator", "Groups that could not be read in full."),
    SentMetric("snapshot.partitions", "gauge", "ListGroupOffsetsOperator", "Partitions that groups have committed to."),
    SentMetric(
        "plan.<count>",
        "gauge",
        "PlanCleanupOperator",
        "Groups by what the plan found: `found`, `planned`, a verdict, or why a group is kept. See [the plan's "
        "counts](../formats.md#plan).",
    ),
    SentMetric("backup.groups", "gauge", "BackupGroupOffsetsOperator", "Groups of the backup."),
    SentMetric("backup.rows", "gauge", "BackupGroupOffsetsOperator", "Committed offsets of the backup."),
    SentMetric("backup.not_backed_up", "gauge", "BackupGroupOffsetsOperator", "Groups that are not in the backup."),
    SentMetric(
        "deletion.<outcome>",
        "counter",
        "DeleteGroupsOperator",
        "Groups by outcome: `deleted`, `kept`, `gone`, `failed`, `unknown`. Not for dry runs.",
    ),
    SentMetric(
        "prune_plan.<count>",
        "gauge",
        "PlanTopicPruningOperator",
        "Topics of groups by what the plan found. See [its counts](../formats.md#plan-of-a-pruning).",
    ),
    SentMetric(
        "pruning.<outcome>",
        "counter",
        "PruneTopicOffsetsOperator",
        "Topics of groups by outcome: `deleted`, `kept`, `gone`, `failed`, `unknown`. Not for dry runs.",
    ),
    SentMetric("drill.restored", "gauge", "RestoreDrillOperator", "Groups that were restored as they were."),
    SentMetric("drill.skipped", "gauge", "RestoreDrillOperator", "Partitions that a restore would leave out."),
    SentMetric("drill.failed", "gauge", "RestoreDrillOperator", "Groups that differed after their restore."),
    SentMetric("drill.left", "gauge", "RestoreDrillOperator", "Scratch groups that could not be removed."),
    SentMetric(
        "lag.total",
        "gauge",
        "ListGroupLagOperator",
        "Sum of the lag of all measured groups whose lag is known; not sent if it is known of none.",
    ),
    SentMetric(
        "lag.max",
        "gauge",
        "ListGroupLagOperator",
        "Lag of the group with the largest lag; not sent if it is known of none.",
    ),
    SentMetric("lag.lagging_groups", "gauge", "ListGroupLagOperator", "Groups with more lag than `max_lag`."),
    SentMetric("lag.unknown_groups", "gauge", "ListGroupLagOperator", "Groups whose lag is not known."),
    SentMetric(
        "group.<group>.lag", "gauge", "ExportGroupMetricsOperator", "Records that the group has not read: at least."
    ),
    SentMetric(
        "group.<group>.seconds_since_movement",
        "gauge",
        "ExportGroupMetricsOperator",
        "Time from the last change of a committed offset to the snapshot: at least.",
    ),
    SentMetric(
        "group.<group>.days_to_expiry",
        "gauge",
        "ExportGroupMetricsOperator",
        "Days from the snapshot until the brokers forget the group's offsets, if it stays idle.",
    ),
    SentMetric("family.<family>.groups", "gauge", "ExportGroupMetricsOperator", "Groups of the family."),
    SentMetric("family.<family>.lag", "gauge", "ExportGroupMetricsOperator", "Sum of the lag of its groups."),
    SentMetric(
        "family.<family>.seconds_since_movement",
        "gauge",
        "ExportGroupMetricsOperator",
        "Smallest time since a movement of its groups.",
    ),
    SentMetric(
        "family.<family>.days_to_expiry",
        "gauge",
        "ExportGroupMetricsOperator",
        "Smallest time to expiry of a group.",
    ),
    SentMetric(
        "group_metrics.omitted", "gauge", "ExportGroupMetricsOperator", "Groups and families over `max_groups`."
    ),
)
