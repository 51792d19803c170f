"""What the brokers' ``offsets.retention.minutes`` means for idle times and notices. Pure.

Kafka forgets the offsets of an empty group after it: a group that has to be idle for as long never becomes stale. A
fitting idle time leaves a quarter of the retention for snapshots, approval and deletion. No idle time is ever shortened
to it without being asked for: the group of a consumer that comes once a week would look stale by less than a week.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from airflow_kafka_groups.durations import SECONDS, show_duration
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.shown import first_of

SETTING = "offsets.retention.minutes"
_USED_SHARE = 0.75
_WEEK = float(SECONDS["weeks"])


def fitting_idle_seconds(retention_minutes: int, notice_seconds: float) -> float | None:
    """Return the longest idle time that leaves room before the brokers forget a group.

    :param notice_seconds: the notice period, which comes after the idle time.

    It is three quarters of the retention, less the notice: complete days, or hours below two days; ``None`` if that is
    less than an hour.
    """
    seconds = retention_minutes * 60 * _USED_SHARE - notice_seconds
    unit = SECONDS["days"] if seconds >= 2 * SECONDS["days"] else SECONDS["hours"]
    return max(seconds, 0.0) // unit * unit or None


def remedy(idle_seconds: float, retention_minutes: int, notice_seconds: float = 0.0) -> str:
    """Return what to change where an idle time does not fit the retention, as the end of a sentence."""
    needed = needed_minutes(idle_seconds + notice_seconds)
    fitting = fitting_idle_seconds(retention_minutes, notice_seconds)
    if fitting is None:
        return f"raise {SETTING} to {needed}"
    weekly = "; a consumer that comes once a week looks stale by that" if fitting <= _WEEK else ""
    return f"raise {SETTING} to {needed}, or lower the idle time to {show_duration(fitting)}{weekly}"


def against_retention(
    rules: Iterable[Rule], retention_minutes: int | None, places: Mapping[str, str] | None = None
) -> tuple[list[str], list[str]]:
    """Return what the brokers' ``offsets.retention.minutes`` means for a policy: errors, and warnings.

    :param retention_minutes: the smallest of all brokers; ``None`` where it is not known.
    :param places: where rules are, by name, such as ``policy.yaml, line 7: rules[0]``.
    """
    deleting = [rule for rule in rules if rule.deletes]
    if retention_minutes is None:
        longest = max((rule.min_idle_seconds + rule.notice_seconds for rule in deleting), default=0.0)
        return [], [] if not longest else [
            f"the brokers' {SETTING} is not known. They forget the offsets of an empty group after it (by default 7 "
            "days): groups that have to be idle for longer never become stale (this policy waits for up to "
            f"{show_duration(longest)}). Allow DescribeConfigs on the cluster, or set offsets_retention_minutes"
        ]
    errors, warnings = list[str](), list[str]()
    kept = show_duration(retention_minutes * 60)
    forget = f"brokers forget the offsets of an empty group after {kept} ({SETTING})"
    for rule in deleting:
        idle, notice = rule.min_idle_seconds, rule.notice_seconds
        where = (places or {}).get(rule.name, f"rule {rule.name!r}")
        if notice >= retention_minutes * 60:
            errors.append(
                f"{where}: a notice of {show_duration(notice)} is too long, since {forget}: set notice to less than "
                f"that, or raise {SETTING} to {needed_minutes(idle + notice)}"
            )
        elif idle + notice >= retention_minutes * 60:
            what = "idle time and notice" if notice else "idle time"
            warnings.append(
                f"{where} waits for {show_duration(idle + notice)} ({what}), and {forget}: most of its groups are gone "
                f"before. To find more, {remedy(idle, retention_minutes, notice)}"
            )
    return errors, first_of(warnings, "rule(s) wait for longer than the brokers remember a group")


def needed_minutes(seconds: float) -> int:
    """Return the retention that leaves room for an idle time and a notice."""
    return math.ceil(seconds / _USED_SHARE / 60)
