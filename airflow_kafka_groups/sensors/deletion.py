"""The sensor that waits until groups are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_group_ids, read_place
from airflow_kafka_groups.hooks.links import CleanupReportLink
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition


class DeleteGroupsSensor(KafkaGroupsSensor):
    """Wait until the given groups are gone: in no broker's listing, and dead according to their coordinators.

    Pass either the group ids or the audit record of a deletion.

    :param group_ids: the groups; duplicates are ignored (templated).
    :param audit_path: audit record of a ``DeleteGroupsOperator``: waits for the groups that it deleted, and succeeds at
        once if there are none (templated).

    While a listing lacks a broker, or a group cannot be described, the sensor keeps waiting. It fails if the audit
    record is of another Kafka cluster than the connection's.
    """

    operator_extra_links = (CleanupReportLink(),)

    group_ids = Argument(optional(read_group_ids))
    audit_path = Argument(optional(read_place))

    @sets_arguments
    def __init__(
        self, *, group_ids: Sequence[str] | str | None = None, audit_path: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if (group_ids is None) == (audit_path is None):
            raise ConfigurationError("group_ids, audit_path", None, "pass exactly one of them")

    def condition(self) -> Condition:
        """Return the condition."""
        from airflow_kafka_groups.triggers.conditions import GroupsGone

        if self.group_ids is not None:
            return GroupsGone(group_ids=tuple(self.group_ids))
        from airflow_kafka_groups.hooks.storage import open_path
        from airflow_kafka_groups.ledger.audit import read_end
        from airflow_kafka_groups.ledger.journal.files import cluster_of_run
        from airflow_kafka_groups.ledger.outcomes import Outcome

        path = open_path("audit_path", self.audit_path)
        _, outcomes = read_end(path)
        deleted = tuple(item.group_id for item in outcomes if item.outcome is Outcome.DELETED)
        return GroupsGone(group_ids=deleted, kafka_cluster_id=cluster_of_run(path))
