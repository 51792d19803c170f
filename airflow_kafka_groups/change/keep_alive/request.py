"""What a keep-alive run is asked for: plain arguments, checked. The operator, the command and a policy all make one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_kafka_groups.checks import check_integer, check_number
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.membership.brief import ASSIGNORS
from airflow_kafka_groups.observe.patterns import GroupFilter, check_group_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAliveRequest:
    """The groups to keep alive, and how. Raises ``ConfigurationError`` for invalid values.

    :param group_ids: the groups by name. Pass these or ``include``.
    :param include: patterns of the groups, see ``patterns``.
    :param exclude: patterns of groups to leave out of ``include``. Default: none.
    :param allow_membership: join and leave classic groups that had members, for which a commit does not help. It adds
        to the group's generation. Default false: such groups are reported.
    :param assignors: the assignors that the brief member offers. Default: those of Kafka's own clients.
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``, for clusters that do not report it; a
        smaller value than the brokers' counts. Default: the brokers'.
    :param margin_seconds: a group is due when it has at most this time left. Default: a third of the retention, and at
        least two intervals.
    :param interval_seconds: the time between two runs. Default: not known.
    :param observe_seconds: the time between two readings of a group that must be equal. Default 10.
    """

    group_ids: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_membership: bool = False
    assignors: tuple[str, ...] = ASSIGNORS
    offsets_retention_minutes: int | None = None
    margin_seconds: float | None = None
    interval_seconds: float | None = None
    observe_seconds: float = 10.0

    def __post_init__(self) -> None:
        if bool(self.group_ids) == bool(self.include) or (self.group_ids and self.exclude):
            raise ConfigurationError(
                "group_ids, include", None, "name the groups, or give patterns (and exclude): one of the two"
            )
        ids = check_group_ids(self.group_ids, allow_empty=True)
        object.__setattr__(self, "group_ids", tuple(ids))
        patterns = GroupFilter(self.include, self.exclude)
        object.__setattr__(self, "include", patterns.include)
        object.__setattr__(self, "exclude", patterns.exclude)
        assignors = tuple(dict.fromkeys(self.assignors))
        if not assignors or not all(assignors):
            raise ConfigurationError("assignors", self.assignors, "must be names of assignors, such as ['range']")
        object.__setattr__(self, "assignors", assignors)
        if self.offsets_retention_minutes is not None:
            check_integer(
                "offsets_retention_minutes",
                self.offsets_retention_minutes,
                1,
                "must be a number of minutes, at least 1",
            )
        if check_number("observe_seconds", self.observe_seconds) < 0:
            raise ConfigurationError("observe_seconds", self.observe_seconds, "must be 0 or a number of seconds")

    def select(self, listed: Collection[str]) -> list[str]:
        """Return the groups that the request is about: those named, or those listed that match."""
        if self.group_ids:
            return list(self.group_ids)
        patterns = GroupFilter(self.include, self.exclude)
        return [group_id for group_id in listed if patterns.selects(group_id)]
