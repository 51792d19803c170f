"""The outcome of each group of a deletion, and the report of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.exceptions import (
    BrokerError,
    IncompleteListingError,
    KafkaGroupsError,
    NotSentError,
    OutcomeUnknownError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.admin.results import is_not_found


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The lease in the record of a run.

    :param generations: the generations of the group by which this run held the lease when it sent delete requests, in
        order: a run with a higher one came later. The first is that in which it was acquired.
    :param lost: why it was lost, ``None`` if it was not.
    """

    group_id: str
    owner: str
    member_id: str
    generations: tuple[int, ...]
    lost: str | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "generations": list(self.generations)}


class Reason(StrEnum):
    """The reason of an outcome, for counting; a sentence for people comes with it."""

    SAFE = "safe"
    GONE = "gone"
    NOT_LISTED = "not_listed"
    NOT_DESCRIBED = "not_described"
    WRONG_TYPE = "wrong_type"
    WRONG_PROTOCOL = "wrong_protocol"
    CHANGED_KIND = "changed_kind"
    NOT_EMPTY = "not_empty"
    HAS_MEMBERS = "has_members"
    UNREADABLE = "unreadable"
    NO_OFFSETS = "no_offsets"
    MOVED = "moved"
    OFFSETS_UNSEEN = "offsets_unseen"
    NOT_IN_BACKUP = "not_in_backup"
    BACKUP_DIFFERS = "backup_differs"
    # Of a topic that is pruned:
    SUBSCRIBED = "subscribed"
    NOT_STABLE = "not_stable"
    # Reasons other than the recheck's own:
    PROTECTED = "protected"
    EXCLUDED = "excluded"
    POLICY = "policy"
    NOT_NOTIFIED = "not_notified"
    DELETED_BEFORE = "deleted_before"
    ALIVE_BEFORE = "alive_before"
    CAME_BACK = "came_back"
    STOPPED = "stopped"
    EXPIRED = "expired"
    TOO_SLOW = "too_slow"
    LEASE_LOST = "lease_lost"


PARTLY_DELETED = "partly_deleted"
"""The code of a group that lost offsets and was not deleted."""


_MAY_BE_DONE = frozenset(
    {
        "UNKNOWN_SERVER_ERROR",
        "REQUEST_TIMED_OUT",
        "NETWORK_EXCEPTION",
        # Answers to a deletion that was written and not replicated in time, or whose coordinator moved meanwhile:
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_ERROR_CODE",  # of a newer broker
    }
)
"""Errors of a broker after which a group may be deleted."""


class Outcome(StrEnum):
    """The outcome of a group."""

    DELETED = "deleted"
    WOULD_DELETE = "would_delete"
    KEPT = "kept"
    GONE = "gone"
    FAILED = "failed"
    UNKNOWN = "unknown"


CONFIRMED: dict[str, Any] = {
    "outcome": Outcome.DELETED,
    "code": "confirmed",
    "reason": "deleted: it is gone, though its answer was lost",
}
"""The outcome of a possibly deleted group that is found gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """The outcome of one group: ``code`` for counting, ``reason`` for people."""

    group_id: str
    outcome: Outcome
    code: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"group_id": self.group_id, "outcome": self.outcome.value, "code": self.code, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReport:
    """The result of a deletion: one outcome for each requested group, in order.

    :param plan_id: ``None`` for named groups.
    :param warnings: what went wrong with the run as a whole.
    :param lease: the lease it held, ``None`` for a dry run, and where the lease is switched off.
    """

    plan_id: str | None
    plan_digest: str | None
    cluster: str | None
    dry_run: bool
    started_at: datetime
    finished_at: datetime
    outcomes: tuple[GroupOutcome, ...]
    backup: str | None = None
    warnings: tuple[str, ...] = ()
    lease: LeaseRecord | None = None

    def ids(self, *outcomes: Outcome) -> list[str]:
        """Return the groups with one of these outcomes."""
        return [item.group_id for item in self.outcomes if item.outcome in outcomes]

    @property
    def counts(self) -> dict[str, int]:
        """Count the outcomes; every outcome is there."""
        found = Counter(item.outcome for item in self.outcomes)
        return {outcome.value: found.get(outcome, 0) for outcome in Outcome}

    @property
    def kept_reasons(self) -> dict[str, int]:
        """Count why groups were kept."""
        return dict(Counter(item.code for item in self.outcomes if item.outcome is Outcome.KEPT))

    def summary(self) -> dict[str, Any]:
        """Return plain JSON without the single outcomes, small enough for XCom."""
        return {
            "plan_id": self.plan_id,
            "plan_digest": self.plan_digest,
            "cluster": self.cluster,
            "dry_run": self.dry_run,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "backup": self.backup,
            "counts": self.counts,
            "kept_reasons": self.kept_reasons,
            "warnings": list(self.warnings),
            "lease": None if self.lease is None else self.lease.to_json(),
        }


def kept(group_id: str, code: Reason, reason: str) -> GroupOutcome:
    """Return the outcome of a group that was not touched: it was kept, or is gone."""
    outcome = Outcome.GONE if code is Reason.GONE else Outcome.KEPT
    return GroupOutcome(group_id=group_id, outcome=outcome, code=code.value, reason=reason)


def of_deletion(group_id: str, error: KafkaGroupsError | None) -> GroupOutcome:
    """Return the outcome of a delete request; without a clear answer it is ``UNKNOWN``: look again."""
    outcome, code, reason = _of_deletion(error)
    return GroupOutcome(group_id=group_id, outcome=outcome, code=code, reason=reason)


def _of_deletion(error: KafkaGroupsError | None) -> tuple[Outcome, str, str]:
    match error:
        case None:
            return Outcome.DELETED, Reason.SAFE.value, "deleted"
        # Of these, no request has named the group:
        case NotSentError():
            return Outcome.KEPT, Reason.TOO_SLOW.value, f"not sent: {error}"
        case UnexpectedGroupTypeError():  # found by the listing of the other types
            return Outcome.KEPT, Reason.CHANGED_KIND.value, f"not sent: {error}"
        case IncompleteListingError():
            return Outcome.FAILED, Reason.NOT_LISTED.value, f"not sent: {error}"
        case OutcomeUnknownError():
            return Outcome.UNKNOWN, "outcome_unknown", f"it may or may not be deleted: {error}"
        case BrokerError(name="NON_EMPTY_GROUP"):
            return Outcome.KEPT, Reason.CAME_BACK.value, "it came back to life: the broker says it has members"
        case BrokerError() if is_not_found(error):
            return Outcome.GONE, Reason.GONE.value, "it does not exist any more"
        # The broker says of these that the change may have been made, or does not say at all.
        case BrokerError(name=name):
            done = name in _MAY_BE_DONE
            reason = f"it may or may not be deleted: {error}" if done else str(error)
            return Outcome.UNKNOWN if done else Outcome.FAILED, name.lower(), reason
    return Outcome.UNKNOWN, "no_answer", f"it may or may not be deleted: {error}"
