"""Sensors that wait until groups exist, are empty, make no progress or are gone, and for coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_duration,
    read_flag,
    read_group_ids,
    read_place,
)
from airflow_kafka_groups.hooks.links import CleanupReportLink
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition


class _NamedGroupsSensor(KafkaGroupsSensor):
    """The base class of conditions on all or any of the given groups.

    :param group_ids: the groups; duplicates are ignored.
    :param require: ``"all"`` (default) of the groups, or ``"any"`` one of them (not templated).
    """

    kind: ClassVar[str]  # of condition
    group_ids = Argument(read_group_ids)
    require = Argument(one_of("all", "any"), templated=False)

    def __init__(
        self, *, group_ids: Sequence[str] | str, require: Literal["all", "any"] = "all", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

    def condition(self, **more: Any) -> Condition:
        from airflow_kafka_groups.triggers.clients import CONDITIONS

        return CONDITIONS[self.kind](  # type: ignore[no-any-return]
            group_ids=tuple(self.group_ids), any_group=self.require == "any", **more
        )


class GroupsExistSensor(_NamedGroupsSensor):
    """Wait until groups exist, in any state.

    A group that cannot be described, or whose state is unknown, counts as missing.
    """

    kind = "GroupsExist"


class GroupsEmptySensor(_NamedGroupsSensor):
    """Wait until groups exist and have no members, e.g. before offsets are reset, restored or deleted.

    A member may come back at any time after the poll. A group that does not exist is not empty.
    """

    kind = "GroupsEmpty"


class GroupsStalledSensor(_NamedGroupsSensor):
    """Wait until groups have made no progress for some time, e.g. to start an alert.

    :param seconds: how long no committed offset has moved: ``"30 min"``, or a number of seconds.
    :param only_with_lag: only groups with unread records count. Default true (not templated).

    The time starts with the sensor. It restarts when the triggerer takes over or is restarted, and after each poll that
    could not read the group. A group without commits does not count.
    """

    kind = "NoProgress"

    seconds = Argument(read_duration)
    only_with_lag = Argument(read_flag, templated=False)

    def __init__(self, *, seconds: float | str, only_with_lag: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.require_one_process()

    def condition(self, **more: Any) -> Condition:
        return super().condition(seconds=self.seconds, only_with_lag=self.only_with_lag, **more)


class FindCoordinatorsSensor(KafkaGroupsSensor):
    """Wait until every given group has an available coordinator.

    :param group_ids: the groups; duplicates are ignored.

    A group whose coordinator cannot be found, for any reason, has none.
    """

    group_ids = Argument(read_group_ids)

    def __init__(self, *, group_ids: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def condition(self) -> Condition:
        from airflow_kafka_groups.triggers.conditions import CoordinatorsAvailable

        return CoordinatorsAvailable(group_ids=tuple(self.group_ids))


class DeleteGroupsSensor(KafkaGroupsSensor):
    """Wait until the given groups are gone: in no broker's listing, and dead according to their coordinators.

    Pass either the group ids or the audit record of a deletion.

    :param group_ids: the groups; duplicates are ignored.
    :param audit_path: audit record of a ``DeleteGroupsOperator``: waits for the groups that it deleted, if any.

    While a listing lacks a broker, or a group cannot be described, the sensor keeps waiting. It fails if the audit
    record is of another Kafka cluster than the connection's.
    """

    operator_extra_links = (CleanupReportLink(),)

    group_ids = Argument(optional(read_group_ids))
    audit_path = Argument(optional(read_place))

    def __init__(
        self, *, group_ids: Sequence[str] | str | None = None, audit_path: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if (group_ids is None) == (audit_path is None):
            raise ConfigurationError("group_ids, audit_path", None, "pass exactly one of them")

    def condition(self) -> Condition:
        from airflow_kafka_groups.triggers.conditions import GroupsGone

        if self.group_ids is not None:
            return GroupsGone(group_ids=tuple(self.group_ids))
        from airflow_kafka_groups.hooks.storage import open_path
        from airflow_kafka_groups.ledger.journal import cluster_of_run, read_end
        from airflow_kafka_groups.ledger.outcomes import Outcome

        path = open_path("audit_path", self.audit_path)
        _, outcomes = read_end(path)
        deleted = tuple(item.group_id for item in outcomes if item.outcome is Outcome.DELETED)
        return GroupsGone(group_ids=deleted, kafka_cluster_id=cluster_of_run(path))
