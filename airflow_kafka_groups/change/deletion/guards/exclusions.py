"""What must be kept whatever a recheck finds: what the journal, notices and keep-alive runs say. Pure.

A restored group looks just as it did when it was judged, and a group that was in use a moment ago may be Empty now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_kafka_groups.change.plan.abandoned_topics import Resets
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.judge.policy.notice import why_not_noticed
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, least_idle_times
from airflow_kafka_groups.ledger.history import DeletionHistory, IdleReset
from airflow_kafka_groups.ledger.ledger import Known, Ledger
from airflow_kafka_groups.ledger.life.signs import SignOfLife, news_of
from airflow_kafka_groups.ledger.notice_book import read_notices
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import utc_times


def exclusions(
    history: DeletionHistory,
    request_id: str,
    *,
    now: datetime,
    judged_at: datetime | None = None,
    min_idle_seconds: Mapping[str, float] | None = None,
    seen: Mapping[str, IdleReset] | None = None,
) -> dict[str, GroupOutcome]:
    """Return the groups that this request must keep, with the reason.

    :param request_id: the plan's id, or what the tries of a deletion by name have in common.
    :param judged_at: when the groups were judged; ``None`` for groups that were named and not judged.
    :param min_idle_seconds: the idle time that was asked for, by group; for other groups, the longest of them counts.
    :param seen: the restarts by signs of life in snapshots that the judgement does not know. Default: none.
    """
    excluded: dict[str, GroupOutcome] = {}
    asked = min_idle_seconds or {}
    longest = max(asked.values(), default=0.0)
    resets = list(history.idle_resets().items())
    for group_id, reset in (*(seen or {}).items(), *resets):
        # The idle time has to have passed when the groups were judged: later on nobody looked.
        if judged_at is not None and not reset.has_passed(min(judged_at, now), asked.get(group_id, longest)):
            excluded[group_id] = kept(group_id, reset.code, f"{reset.reason}; its idle time restarts since then")
    for group_id, reset in history.idle_resets(request_id).items():
        excluded[group_id] = kept(group_id, reset.code, f"{reset.reason}; only a new plan may judge it again")
    return excluded


def exclude(group_ids: Iterable[str], who: str) -> dict[str, GroupOutcome]:
    """Return the groups that a person chose to keep."""
    return {id_: kept(id_, Reason.EXCLUDED, f"{who} kept it at the approval") for id_ in group_ids}


def spare(
    kept_alive: Mapping[str, KeptAlive], now: datetime, judged_at: datetime, min_idle_seconds: Mapping[str, float]
) -> dict[str, GroupOutcome]:
    """Return the groups that a keep-alive run or a restore keeps: whatever was planned, somebody wants them.

    :param judged_at: when the plan was made; a group whose idle time counts from a run after that is not old enough.
    :param min_idle_seconds: the idle time that was asked for, by group; for other groups, the longest of them counts.
    """
    longest = max(min_idle_seconds.values(), default=0.0)
    return {
        id_: kept(id_, Reason.EXCLUDED, f"{each.what} of {each.at.isoformat()} wants it to stay")
        for id_, each in kept_alive.items()
        if each.holds(now, judged_at, min_idle_seconds.get(id_, longest))
    }


def spare_new(kept_alive: Mapping[str, KeptAlive]) -> dict[str, GroupOutcome]:
    """Return the groups of runs that were recorded during a deletion; no clock decides about these."""
    return {
        id_: kept(id_, Reason.EXCLUDED, f"{each.what} that began during the deletion wants it to stay")
        for id_, each in kept_alive.items()
    }


def kept_by_records(
    layout: Layout,
    plan: DeletionPlan | None,
    request_id: str,
    history: DeletionHistory,
    kept_alive: Mapping[str, KeptAlive],
    now: datetime,
    *,
    seen: Mapping[str, SignOfLife] | None = None,
) -> dict[str, GroupOutcome]:
    """Return what a request must keep because of what is on record, with the reason.

    :param request_id: the plan's id, or what the tries of a deletion by name have in common.
    :param seen: the last sign of life of each group in the snapshots of all connections. Default: none.
    """
    if plan is None:
        return exclusions(history, request_id, now=now)
    unnoticed: dict[str, GroupOutcome] = {}
    idle, judged_at = least_idle_times(plan), min(plan.created_at, now)
    of_group: dict[str, float] = {}
    for target in plan.targets():
        of_group[target.group_id] = max(idle[target.name], of_group.get(target.group_id, 0.0))
    if not plan.prunes:
        news = news_of_groups(plan, seen or {})
        unnoticed = kept_unnoticed(layout, plan, history, kept_alive, now, news)
    else:
        resets = Resets(history)
        found = (
            (each.name, resets.why_reset(each.group_id, each.name, judged_at, idle[each.name]))
            for each in plan.targets()
        )
        news = {name: reset for name, reset in found if reset is not None}
    before = exclusions(
        history,
        request_id,
        now=now,
        judged_at=judged_at if plan.judged else None,
        min_idle_seconds=idle,
        seen=news,
    )
    spared = spare(kept_alive, now, judged_at if plan.judged else now, of_group)
    return unnoticed | of_targets(plan, spared) | before


def of_targets(plan: DeletionPlan, of_groups: Mapping[str, GroupOutcome]) -> dict[str, GroupOutcome]:
    """Return the outcomes of groups as those of what a plan deletes of these, by name."""
    found = ((each.name, of_groups.get(each.group_id)) for each in plan.targets())
    return {name: replace(of_group, group_id=name) for name, of_group in found if of_group is not None}


def news_of_groups(plan: DeletionPlan, seen: Mapping[str, SignOfLife]) -> dict[str, IdleReset]:
    """Return the restarts of idle times by signs of life that the plan does not know, by group."""
    planned = zip(plan.group_ids, utc_times(plan.planned.table["idle_since"]), strict=True)
    resets = ((group_id, news_of(seen.get(group_id), idle_since)) for group_id, idle_since in planned)
    return {group_id: reset for group_id, reset in resets if reset is not None}


def kept_unnoticed(
    layout: Layout,
    plan: DeletionPlan,
    history: DeletionHistory,
    kept_alive: Mapping[str, KeptAlive],
    now: datetime,
    news: Mapping[str, IdleReset] | None = None,
) -> dict[str, GroupOutcome]:
    """Return the groups of a plan whose owners have not been notified for long enough, with the reason to keep them.

    A plan checks the same. What counts here is the journal now: not what a plan, an XCom or an argument says.

    :param news: the restarts of idle times by signs of life that the plan does not know. Default: none.

    Raises ``JournalError`` and ``StorageError``: without the marks, nothing is deleted by a plan that needs them.
    """
    rules = plan.policy.rules
    if not any(rule.deletes for rule in rules):
        return {}
    before = plan.policy.rules_before()
    notices, resets = read_notices(layout, plan.kafka_cluster_id, rules), history.idle_resets()
    found: dict[str, GroupOutcome] = {}
    for group in plan.groups:
        signs = [group.idle_since] if group.idle_since is not None else []
        restarts = resets.get(group.group_id), (news or {}).get(group.group_id)
        signs += [reset.at for reset in restarts if reset is not None]
        if (wanted := kept_alive.get(group.group_id)) is not None:
            signs.append(wanted.at)
        why = why_not_noticed(
            notices.get(group.group_id),
            before.most(group.decided, lambda rule: rule.notice_seconds),
            fingerprint=group.fingerprint,
            at=min(now, plan.created_at),  # nobody looked later; and a clock may be ahead
            alive_at=max(signs, default=None),
            owner=group.owner,
            contact=plan.policy.contact_of(group.owner),
        )
        if why is not None:
            found[group.group_id] = kept(group.group_id, Reason.NOT_NOTIFIED, why)
    return found


class NamedSigns:
    """The signs of life of named groups, as a plan would heed them: nobody has judged these."""

    def __init__(self, layout: Layout, idle_seconds: float) -> None:
        self._layout = layout
        self._idle_seconds = idle_seconds
        self.watched: str | None = None
        """Why little is known, a sentence; ``None`` if the cluster has been watched for the idle time."""

    def alive(self, kafka_cluster_id: str | None, group_ids: Sequence[str], now: datetime) -> dict[str, GroupOutcome]:
        """Return the groups that have a sign of life within the idle time, with the sign as the reason.

        Raises ``SnapshotError``, ``JournalError``, ``MaintenanceError`` or ``StorageError`` for what cannot be read.
        """
        since = now - timedelta(seconds=self._idle_seconds)
        known = Ledger(self._layout, kafka_cluster_id).known(group_ids, since)
        known.require_read()
        self.watched = self._why_unwatched(known, since)
        wanted = dict.fromkeys(known.kept_alive, self._idle_seconds)
        found = spare(known.kept_alive, now, now, wanted) | self._kept(known.resets(), now)
        return {group_id: found[group_id] for group_id in group_ids if group_id in found}

    def seen(self, kafka_cluster_id: str | None, group_ids: Sequence[str], now: datetime) -> dict[str, GroupOutcome]:
        """Return those that snapshots show. During a run: by the journal, its own intents would be signs, too.

        Raises as ``alive``.
        """
        since = now - timedelta(seconds=self._idle_seconds)
        signs = Ledger(self._layout, kafka_cluster_id).seen(group_ids, since)
        return self._kept({group_id: sign.reset() for group_id, sign in signs.items()}, now)

    def _kept(self, resets: Mapping[str, IdleReset], now: datetime) -> dict[str, GroupOutcome]:
        idle = show_duration(self._idle_seconds)
        return {
            group_id: kept(group_id, reset.code, f"{reset.reason}, less than {idle} ago")
            for group_id, reset in resets.items()
            if not reset.has_passed(now, self._idle_seconds)
        }

    def _why_unwatched(self, known: Known, since: datetime) -> str | None:
        first, last = known.watched_since, known.watched_until
        if first is not None and last is not None and first <= since < last:
            return None
        found = "there is no snapshot" if first is None or last is None else f"the snapshots are of {first} to {last}"
        idle = show_duration(self._idle_seconds)
        return f"this cluster was not watched for the last {idle} ({found}): signs of life may not be known"
