"""Sensors that wait until groups exist, are empty, or make no progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import one_of, read_duration, read_group_ids, read_switch
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition


class _NamedGroupsSensor(KafkaGroupsSensor):
    """The base class of conditions on all or any of the given groups.

    :param group_ids: the groups; duplicates are ignored (templated).
    :param require: ``"all"`` (default) of the groups, or ``"any"`` one of them.
    """

    group_ids = Argument(read_group_ids)
    require = Argument(one_of("all", "any"), templated=False)

    @sets_arguments
    def __init__(
        self, *, group_ids: Sequence[str] | str, require: Literal["all", "any"] = "all", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

    def wanted(self) -> dict[str, Any]:
        """Return the arguments that all conditions on groups share."""
        return {"group_ids": tuple(self.group_ids), "any_group": self.require == "any"}


class GroupsExistSensor(_NamedGroupsSensor):
    """Wait until groups exist, in any state.

    A group that cannot be described, or whose state is unknown, counts as missing.
    """

    def condition(self) -> Condition:
        """Return the condition."""
        from airflow_kafka_groups.triggers.group_conditions import GroupsExist

        return GroupsExist(**self.wanted())


class GroupsEmptySensor(_NamedGroupsSensor):
    """Wait until groups exist and have no members, e.g. before offsets are reset, restored or deleted.

    A member may come back at any time after the poll. A group that does not exist is not empty.
    """

    def condition(self) -> Condition:
        """Return the condition."""
        from airflow_kafka_groups.triggers.group_conditions import GroupsEmpty

        return GroupsEmpty(**self.wanted())


class GroupsStalledSensor(_NamedGroupsSensor):
    """Wait until groups have made no progress for some time, e.g. to start an alert.

    :param seconds: how long no committed offset has moved: ``"30 min"``, or a number of seconds (templated).
    :param only_with_lag: only groups with unread records count. Default true.

    The time starts with the sensor. It restarts when the triggerer takes over or is restarted, and after each poll that
    could not read the group. A group without commits does not count.
    """

    seconds = Argument(read_duration)
    only_with_lag = Argument(read_switch, templated=False)

    @sets_arguments
    def __init__(self, *, seconds: float | str, only_with_lag: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.require_one_process()

    def condition(self) -> Condition:
        """Return the condition."""
        from airflow_kafka_groups.triggers.group_conditions import NoProgress

        return NoProgress(seconds=self.seconds, only_with_lag=self.only_with_lag, **self.wanted())
