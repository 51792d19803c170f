"""Notices: when the owner of a stale group was notified of its deletion, and whether that still counts. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.shown import one_line

NOTIFIERS = ("smtp", "slack", "slack_webhook")
"""What can notify owners by an Airflow connection."""
_SHOWN = 3


def check_notify(field: str, notify: Any) -> dict[str, str]:
    """Return what notifies owners: nothing, or one notifier with its connection, whose id is no template."""
    if not isinstance(notify, dict) or len(notify) > 1 or not notify.keys() <= {*NOTIFIERS}:
        remedy = f'must be one of {", ".join(NOTIFIERS)} with its connection, such as {{"smtp": "smtp_default"}}'
        raise ConfigurationError(field, notify, remedy)
    for kind, conn_id in notify.items():
        if not isinstance(conn_id, str) or not re.fullmatch(r"[\w.@-]+", conn_id):
            raise ConfigurationError(f"{field}.{kind}", conn_id, "must be the id of an Airflow connection")
    return notify


def without_notifier(rules: Iterable[Rule], notify: Mapping[str, str]) -> list[str]:
    """Return the warning of a policy whose rules demand a notice while nothing that is known here sends one.

    :param notify: the notifiers, see ``PlanPolicy.notify``.
    """
    names = [repr(rule.name) for rule in rules if rule.deletes and rule.notice_seconds]
    if notify or not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [
        f"{', '.join(names[:_SHOWN])}{more}: the rules demand a notice, and neither the policy file nor "
        "KAFKA_GROUPS_DEFAULTS has a notifier, such as notify: {smtp: smtp_default}. Unless your DAG gives "
        "NotifyOwnersOperator notifiers, nobody is notified, and their groups are kept"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The mark of one group.

    :param fingerprint: of its committed offsets when it was marked.
    :param marked_at: when it was seen stale: the time of the snapshot whose plan marked it.
    :param notified_at: when its owner was notified; ``None``: not yet.
    :param owner: whom; ``None`` where the group has no owner, and the default contact was notified.
    :param contact: where; ``None``: not yet, or the message went to another owner or contact than the policy has now.
    :param told_seconds: the period that the message named; ``None``: not yet.

    Raises ``ValueError`` for a mark that says when a message was sent and not which period it named, or the reverse.
    """

    fingerprint: str
    marked_at: datetime
    notified_at: datetime | None = None
    owner: str | None = None
    contact: str | None = None
    told_seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.notified_at is None) != (self.told_seconds is None):
            raise ValueError("a notice has a time and the period that it named, or neither")


def is_of_this_idle_time(notice: Notice, fingerprint: str, alive_at: datetime | None) -> bool:
    """Return whether a mark is about the present idle time of a group, and not one before it.

    :param fingerprint: of the offsets that the group has now.
    :param alive_at: the last sign of life that is known.
    """
    return notice.fingerprint == fingerprint and (alive_at is None or alive_at < notice.marked_at)


def why_not_noticed(
    notice: Notice | None,
    seconds: float,
    *,
    fingerprint: str,
    at: datetime,
    alive_at: datetime | None = None,
    owner: str | None = None,
    contact: str | None = None,
) -> str | None:
    """Return why a group must wait for its notice, ``None`` if it was given for long enough.

    :param notice: the group's mark; ``None`` if it has none.
    :param seconds: the notice period that its rule demands; 0 for none.
    :param fingerprint: of the offsets that it has now.
    :param at: the time at which the period must have passed.
    :param alive_at: the last sign of life that is known; a mark from before it does not count.
    :param owner: whose the group is now; a message to another owner does not count. Default: nobody's.
    :param contact: where its owner is notified now; a message to another place does not count.
    """
    if seconds <= 0:
        is_of_now = notice is not None and is_of_this_idle_time(notice, fingerprint, alive_at)
        return _why_told(notice, at) if notice is not None and is_of_now else None
    if notice is None:
        return "its owner has not been notified"
    if not is_of_this_idle_time(notice, fingerprint, alive_at):
        return f"it has lived since it was marked at {_shown(notice.marked_at)}: its owner has to be notified again"
    if notice.notified_at is None:
        return f"it was marked at {_shown(notice.marked_at)}, and its owner has not been notified yet"
    if notice.owner != owner:
        return f"{shown_owner(notice.owner)} was notified, and its owner is another one by now"
    if notice.contact is None or notice.contact != contact:
        return "its owner was notified somewhere else than the policy says by now, and has to be notified again"
    # A clock that went back between mark and message would make the message older than it is.
    passed = (at - max(notice.marked_at, notice.notified_at)).total_seconds()
    if passed < seconds:
        return (
            f"its owner was notified at {_shown(notice.notified_at)}, and the notice period of "
            f"{shown_period(seconds)} is not over"
        )
    return _why_told(notice, at)


def _why_told(notice: Notice, at: datetime) -> str | None:
    """Return why a group must wait for the end that the message named, whatever its rule demands by now."""
    if notice.notified_at is None or notice.told_seconds is None:
        return None
    if (at - max(notice.marked_at, notice.notified_at)).total_seconds() >= notice.told_seconds:
        return None
    return f"the notice to its owner named {shown_period(notice.told_seconds)}, which are not over"


def shown_owner(owner: str | None) -> str:
    """Return an owner for messages, on one line: an id may say who it is."""
    return one_line(owner) if owner else "nobody in particular"


def shown_period(seconds: float) -> str:
    """Return a time in the largest unit that it has one of, such as ``2 days``, ``12 h`` or ``4 s``; rounded down."""
    for length, unit in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= length:
            shown = f"{rounded_down(seconds / length)} {unit}"
            return "1 day" if shown == "1 days" else shown
    return f"{rounded_down(seconds)} s"


def rounded_down(number: float) -> str:
    """Return a number with three digits at least. A message says "at the earliest", and must not name a later time."""
    places = 10 ** max(2 - math.floor(math.log10(number)), 0) if number > 0 else 1
    return f"{math.floor(number * places + 1e-9) / places:.10g}"


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
