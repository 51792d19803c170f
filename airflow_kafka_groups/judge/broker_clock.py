"""When brokers forget the offsets of a group without members, and what puts that off. Pure.

Brokers remove offsets ``offsets.retention.minutes`` after a time that depends on the kind of the group (measured,
docs/howto/keep-alive.md): for a classic group that had members it is the time at which it became Empty, which only a
membership changes; for all others it is the time of each commit. No request tells either time. A keep-alive run changes
both, so its own record proves a time before which nothing is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_kafka_groups.checks import check_seconds
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES, GroupType

MARGIN_SHARE = 3
"""By default, a group is due in the last third of its retention."""
_FOR_EVER_MINUTES = 1000 * 525_960
"""A thousand years. The longest retention that Kafka accepts is 4,083, and the calendar does not go back so far."""
_RUNS = 2
"""The least number of scheduled runs in the margin: one may fail."""


class Remedy(StrEnum):
    """What puts off the time at which brokers forget a group."""

    COMMIT = "commit"
    MEMBERSHIP = "membership"


def remedy_for(group_type: GroupType, protocol_type: str) -> Remedy | None:
    """Return what keeps a group of this kind alive, ``None`` for a kind that is left alone.

    :param group_type: its type; ``UNKNOWN`` below ListGroups v5, where all groups are classic.
    :param protocol_type: its protocol type; empty for a group that only commits.
    """
    if protocol_type not in ELIGIBLE_PROTOCOL_TYPES or group_type not in JUDGED_TYPES:
        return None
    if group_type is GroupType.CONSUMER or not protocol_type:
        return Remedy.COMMIT
    return Remedy.MEMBERSHIP


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClock:
    """The offsets retention, and how long before its end a group is due.

    :param retention: how long the brokers keep offsets.
    :param margin: a group is due when its remaining time is at most this.
    """

    retention: timedelta
    margin: timedelta

    @classmethod
    def of(
        cls, retention_minutes: int, *, margin_seconds: float | None = None, interval_seconds: float | None = None
    ) -> BrokerClock:
        """Build the clock.

        :param retention_minutes: ``offsets.retention.minutes``.
        :param margin_seconds: the margin. Default: a third of the retention, and at least two intervals.
        :param interval_seconds: the time between two runs; ``None`` if it is not known.

        Raises ``ConfigurationError`` for a margin that is not below the retention, or an interval of which two are not.
        """
        retention = timedelta(minutes=min(retention_minutes, _FOR_EVER_MINUTES))
        least = timedelta()
        if interval_seconds is not None:
            least = _RUNS * timedelta(seconds=check_seconds("interval_seconds", interval_seconds))
            if least >= retention:
                raise ConfigurationError(
                    "interval_seconds",
                    interval_seconds,
                    f"the brokers forget offsets after {show_duration(retention.total_seconds())}: run at least "
                    "three times in that time",
                )
        if margin_seconds is None:
            return cls(retention=retention, margin=max(retention / MARGIN_SHARE, least))
        margin = timedelta(seconds=check_seconds("margin_seconds", margin_seconds))
        if not least <= margin < retention:
            raise ConfigurationError(
                "margin_seconds",
                margin_seconds,
                f"must be at least two intervals and below the retention, {show_duration(retention.total_seconds())}",
            )
        return cls(retention=retention, margin=margin)

    def not_before(self, kept_at: datetime | None) -> datetime | None:
        """Return the time before which brokers forget nothing, ``None`` if it is not known.

        :param kept_at: when the last keep-alive run of the group began; ``None`` if there was none.
        """
        return None if kept_at is None else kept_at + self.retention

    def is_due(self, kept_at: datetime | None, now: datetime) -> bool:
        """Return whether a group must be kept alive now: nobody knows its time, or it is within the margin."""
        return kept_at is None or kept_at > now or kept_at + self.retention - now <= self.margin
