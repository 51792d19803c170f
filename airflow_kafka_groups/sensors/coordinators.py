"""The sensor that waits for coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_group_ids
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition


class FindCoordinatorsSensor(KafkaGroupsSensor):
    """Wait until every given group has an available coordinator.

    :param group_ids: the groups; duplicates are ignored (templated).

    A group whose coordinator cannot be found, for any reason, has none.
    """

    group_ids = Argument(read_group_ids)

    @sets_arguments
    def __init__(self, *, group_ids: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def condition(self) -> Condition:
        """Return the condition."""
        from airflow_kafka_groups.triggers.conditions import CoordinatorsAvailable

        return CoordinatorsAvailable(group_ids=tuple(self.group_ids))
