"""All metrics that operators send through Airflow.

``tests/exhaustive/operators/test_telemetry.py`` runs the operators and compares what they send with this list, in both
directions.
"""

from typing import NamedTuple


class SentMetric(NamedTuple):
    """A metric.

    :param name: its name after ``kafka_groups.<cluster>.``, with ``<…>`` for a part that varies.
    :param meaning: one sentence.
    """

    name: str
    operator: str
    meaning: str

    @property
    def kind(self) -> str:
        """Whether it is a ``counter`` or a ``gauge``."""
        return "counter" if self.name.endswith(".<outcome>") else "gauge"


_BY_OPERATOR = {
    "ListGroupOffsetsOperator": {
        "groups.all": "Groups of the snapshot. No snapshot of named groups sends this or the next four.",
        "groups.<state>": "Groups in a state: `Empty`, `Stable` …; 0 if there are none.",
        "snapshot.groups": "Groups of the snapshot.",
        "snapshot.failed_groups": "Groups that could not be read in full.",
        "snapshot.partitions": "Partitions that groups have committed to.",
    },
    "PlanCleanupOperator": {
        "plan.<count>": (
            "Groups by what the plan found: `found`, `planned`, a verdict, or why a group is kept. See [the "
            "plan's counts](../formats.md#plan)."
        )
    },
    "BackupGroupOffsetsOperator": {
        "backup.groups": "Groups of the backup.",
        "backup.rows": "Committed offsets of the backup.",
        "backup.not_backed_up": "Groups that are not in the backup.",
    },
    "DeleteGroupsOperator": {
        "deletion.<outcome>": "Groups by outcome: `deleted`, `kept`, `gone`, `failed`, `unknown`. Not for dry runs."
    },
    "PlanTopicPruningOperator": {
        "prune_plan.<count>": (
            "Topics of groups by what the plan found. See [its counts](../formats.md#plan-of-a-pruning)."
        )
    },
    "PruneTopicOffsetsOperator": {
        "pruning.<outcome>": (
            "Topics of groups by outcome: `deleted`, `kept`, `gone`, `failed`, `unknown`. Not for dry runs."
        )
    },
    "RestoreDrillOperator": {
        "drill.restored": "Groups that were restored as they were.",
        "drill.skipped": "Partitions that a restore would leave out.",
        "drill.failed": "Groups that differed after their restore.",
        "drill.left": "Scratch groups that could not be removed.",
    },
    "ListGroupLagOperator": {
        "lag.total": "Sum of the lag of all measured groups whose lag is known; not sent if it is known of none.",
        "lag.max": "Lag of the group with the largest lag; not sent if it is known of none.",
        "lag.lagging_groups": "Groups with more lag than `max_lag`.",
        "lag.unknown_groups": "Groups whose lag is not known.",
    },
}
SENT_METRICS = tuple(
    SentMetric(name, operator, said) for operator, of in _BY_OPERATOR.items() for name, said in of.items()
)
