"""The sensor that waits for committed offsets: given targets, the end of the log, or a maximum lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_duration,
    read_flag,
    read_group_ids,
    read_integer,
    read_partition_offsets,
)
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition


class ListGroupOffsetsSensor(KafkaGroupsSensor):
    """Wait until groups' committed offsets have reached targets or the end of the log, or their lag is low enough.

    Pass ``targets``, or ``group_ids`` with at least one of ``max_total_lag``, ``max_partition_lag`` and
    ``max_lag_seconds``, or ``group_ids`` with ``to_end``. A poll is one batched call for any number of groups.

    :param targets: the target offset of each partition, as ``{group: {topic: {partition: offset}}}``; numbers may be
        strings, and all of it may be a JSON string.
    :param group_ids: the groups; duplicates are ignored.
    :param max_total_lag: maximum total lag of a group, in messages.
    :param max_partition_lag: maximum lag of any single partition, in messages.
    :param max_lag_seconds: maximum age of any partition's next unread record, by its timestamp, such as ``"15 min"``.
    :param to_end: wait for the end offsets at the start of the wait: at the first poll that found commits of the group.
        Default false (not templated).
    :param require: ``"all"`` (default) of the groups, or ``"any"`` one of them (not templated).

    A group that cannot be read, has no commit, or has committed beyond the end of a topic has not reached anything.
    Only partitions with a commit count for the lag; records that were removed unread are no lag.
    """

    targets = Argument(optional(read_partition_offsets))
    group_ids = Argument(optional(read_group_ids))
    max_total_lag = Argument(optional(read_integer))
    max_partition_lag = Argument(optional(read_integer))
    max_lag_seconds = Argument(optional(read_duration))
    to_end = Argument(read_flag, templated=False)
    require = Argument(one_of("all", "any"), templated=False)

    def __init__(
        self,
        *,
        targets: Mapping[str, Mapping[str, Mapping[int | str, int | str]]] | str | None = None,
        group_ids: Sequence[str] | str | None = None,
        max_total_lag: int | str | None = None,
        max_partition_lag: int | str | None = None,
        max_lag_seconds: float | str | None = None,
        to_end: bool = False,
        require: Literal["all", "any"] = "all",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (targets is None) == (group_ids is None):
            raise ConfigurationError("targets, group_ids", None, "pass exactly one of them")
        no_lag = max_total_lag is None and max_partition_lag is None and max_lag_seconds is None
        if (no_lag and not to_end) != (group_ids is None) or (to_end and not no_lag):
            raise ConfigurationError(
                "max_total_lag, max_partition_lag, max_lag_seconds, to_end",
                None,
                "pass a lag or to_end with group_ids, not both, and neither with targets",
            )
        if to_end:
            self.require_one_process()

    def condition(self) -> Condition:
        from airflow_kafka_groups.triggers.conditions import EndReached, LagAtMost, OffsetsReached

        any_group = self.require == "any"
        if self.targets is not None:
            return OffsetsReached(targets=self.targets, any_group=any_group)
        group_ids = tuple(self.group_ids or ())
        if self.to_end:
            return EndReached(group_ids=group_ids, any_group=any_group)
        return LagAtMost(
            group_ids=group_ids,
            total=self.max_total_lag,
            partition=self.max_partition_lag,
            seconds=self.max_lag_seconds,
            any_group=any_group,
        )
