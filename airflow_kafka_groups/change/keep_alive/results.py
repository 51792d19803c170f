"""The results of a keep-alive run: one outcome per group, and what somebody has to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.judge.broker_clock import BrokerClock
from airflow_kafka_groups.storage.layout import StoragePath


class KeepAliveOutcome(StrEnum):
    """The outcome of one group."""

    KEPT_ALIVE = "kept_alive"
    WOULD_KEEP_ALIVE = "would_keep_alive"
    NOT_DUE = "not_due"
    LEFT_ALONE = "left_alone"
    NEEDS_MEMBERSHIP = "needs_membership"
    MISSING = "missing"
    FAILED = "failed"
    UNKNOWN = "unknown"


NOT_KEPT = (
    KeepAliveOutcome.NEEDS_MEMBERSHIP,
    KeepAliveOutcome.MISSING,
    KeepAliveOutcome.FAILED,
    KeepAliveOutcome.UNKNOWN,
)
"""Outcomes of groups that brokers may forget, or have forgotten: somebody has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeepAlive:
    """The result of one group.

    :param not_before: the time before which brokers do not forget it, ``None`` if it is not known.
    :param partitions: the number of offsets that were, or would be, committed again.
    """

    group_id: str
    outcome: KeepAliveOutcome
    reason: str
    not_before: datetime | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAliveReport:
    """The results of a run.

    :param groups: one result for each group that was named or matches, sorted by id.
    :param clock: the retention and the margin.
    :param missing_brokers: brokers (and partitions of ``__consumer_offsets``) whose groups could not be listed.
    :param path: the record of the results; ``None`` if all groups were kept alive recently enough.
    """

    groups: list[GroupKeepAlive]
    clock: BrokerClock
    missing_brokers: Mapping[str, str]
    path: StoragePath | None

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups by outcome."""
        found = Counter(group.outcome for group in self.groups)
        return {outcome.value: found.get(outcome, 0) for outcome in KeepAliveOutcome}

    @property
    def next_due(self) -> datetime | None:
        """When the first of the groups kept alive is due again, ``None`` without any."""
        known = [group.not_before for group in self.groups if group.not_before is not None]
        return min(known) - self.clock.margin if known else None

    def problems(self) -> dict[str, KafkaGroupsError]:
        """Return the groups that were not kept alive and should be looked at, and the brokers that did not answer."""
        found = {item.group_id: KafkaGroupsError(item.reason) for item in self.groups if item.outcome in NOT_KEPT}
        return found | {f"broker {id_}": KafkaGroupsError(why) for id_, why in self.missing_brokers.items()}

    def summary(self) -> dict[str, Any]:
        """Return the numbers and times as JSON values."""
        due = self.next_due
        return {
            "counts": self.counts,
            "partitions": sum(group.partitions for group in self.groups),
            "retention_seconds": self.clock.retention.total_seconds(),
            "margin_seconds": self.clock.margin.total_seconds(),
            "next_due": None if due is None else due.isoformat(timespec="seconds"),
            "missing_brokers": dict(self.missing_brokers),
            "result_path": None if self.path is None else str(self.path),
        }
