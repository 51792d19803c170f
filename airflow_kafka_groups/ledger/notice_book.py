"""The marks of a cluster, and the notices that were given: a chain of its own beside the runs of the journal.

::

    <storage>/_journal/<Kafka's cluster id>/notices/000001.json   all marks as they were then, or those that changed

An entry has all marks, or only those that it changes: of a plan with many owners, each has a message and an entry. The
last entry of a plan has all of them, so that it says everything. Each carries the SHA-256 of the one before it, and is
created exclusively: of two that write at once, one is refused and tries again. A mark is written before its owner is
notified, and the notice after that: a process that dies in between notifies once more, and never counts a notice that
was not sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.judge.policy.notice import Notice, is_of_this_idle_time
from airflow_kafka_groups.judge.policy.rules import Rule, RuleFacts, RulesBefore
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.observe.cluster_log import Entry, create_entry, numbers_of, read_entry
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, StoragePath, journal_folder
from airflow_kafka_groups.storage.paths import is_id, parse_time, time_of

KIND = "notices"
_ALL, _CHANGED = "marks", "changed"
_DIGITS = 6
_STALE = frozenset(name.value for name in KeptName)


class NoticeBook:
    """The marks of one Kafka cluster. Not for two threads at once.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None) -> None:
        self.folder = journal_folder(base, kafka_cluster_id) / KIND
        self._number = 0
        self._head: str | None = None

    def read(self) -> dict[str, Notice]:
        """Return all marks, by group.

        Raises ``JournalError`` when an entry is missing, damaged or does not follow the one before it, and
        ``StorageError``.
        """
        listed = max(numbers_of(FILES.names(self.folder), _DIGITS), default=0)
        number, before = listed, None
        newest = self._entry(listed) if listed else None
        if listed and newest is None:
            raise JournalError(f"{self._path(listed)} is listed and cannot be found: the journal was changed")
        while (later := self._entry(number + 1)) is not None:  # a listing may be late
            number, before, newest = number + 1, newest, later
        if newest is None:
            self._number, self._head = 0, None
            return {}
        self._number, self._head = number, newest.sha256
        since = [newest]  # the newest entry with all marks, and those after it: newest first
        while True:
            number -= 1
            before = before or (self._entry(number) if number else None)
            if since[-1].data.get("previous") != (None if before is None else before.sha256):
                raise JournalError(f"{since[-1].path} does not follow the entry before it: the journal was changed")
            if before is None or _CHANGED not in since[-1].data:
                break
            since.append(before)
            before = None
        marks: dict[str, Notice] = {}
        for place, entry in enumerate(reversed(since)):
            marks |= _parse(entry, _CHANGED if place else _ALL)
        return marks

    def written_by(self, plan_id: str, since: datetime) -> list[Mapping[str, Any]]:
        """Return what the entries of one plan say besides the marks, newest first. ``read`` must have been called.

        :param since: when the plan was made; older entries are not read.

        Raises ``JournalError`` for an entry that is missing or damaged, and ``StorageError``.
        """
        found: list[Mapping[str, Any]] = []
        for number in range(self._number, 0, -1):
            entry = self._entry(number)
            if entry is None:
                raise JournalError(f"{self._path(number)} cannot be found, and later ones can: the journal was changed")
            if _written_at(entry) < since:
                break
            if entry.data.get("plan_id") == plan_id:
                facts = {name: value for name, value in entry.data.items() if name not in (_ALL, _CHANGED)}
                found.append(facts)
        return found

    def write(
        self, notices: Mapping[str, Notice], at: datetime, *, changed: Collection[str] | None = None, **facts: Any
    ) -> None:
        """Append an entry, durably. ``read`` must have been called.

        :param notices: all marks.
        :param changed: the groups whose marks differ from those of the entry before: only these are written. Default:
            all are.
        :param facts: whatever else is to be known of it later, such as the plan.

        Raises ``JournalError`` when somebody else has written meanwhile, and ``StorageError``.
        """
        kept = {_ALL: _columns(notices)}
        if changed is not None:
            kept = {_CHANGED: _columns({group_id: notices[group_id] for group_id in changed})}
        data = {"kind": KIND, "at": at.isoformat(), **facts, **kept, "previous": self._head}
        try:
            entry = create_entry(self._path(self._number + 1), data)
        except FileExistsAlreadyError as exc:
            raise JournalError(f"somebody else has written here meanwhile: {exc}; run again") from exc
        self._number, self._head = self._number + 1, entry.sha256

    def _path(self, number: int) -> StoragePath:
        return self.folder / f"{number:0{_DIGITS}}.json"

    def _entry(self, number: int) -> Entry | None:
        return read_entry(self._path(number), KIND)


def read_notices(layout: Layout, kafka_cluster_id: str | None, rules: Iterable[Rule]) -> dict[str, Notice]:
    """Return all marks of a cluster, by group; none are read for a policy without a file, or that deletes nothing.

    A policy whose rules demand no notice any more reads them, too: what messages said holds.

    Raises ``JournalError`` and ``StorageError``.
    """
    deleting = [rule for rule in rules if rule.deletes]
    if not deleting or not (kafka_cluster_id or any(rule.notice_seconds for rule in deleting)):
        return {}
    return NoticeBook(layout.base, kafka_cluster_id).read()


def marked(notices: Mapping[str, Notice], plan: DeletionPlan, *, of_all_groups: bool) -> dict[str, Notice]:
    """Return the marks after a plan: its groups that wait for a notice get one, and groups that live lose theirs.

    :param plan: the plan. Its snapshot's time is that of new marks, by the same clock as every later sign of life.
    :param of_all_groups: whether a group that the plan does not name is gone, and its mark with it.
    """
    at = time_of(plan.snapshot_id) if is_id(plan.snapshot_id) else plan.created_at
    stale, rules = set(plan.group_ids), plan.policy.rules_before()
    found: dict[str, Notice] = {}
    for group in plan.kept:
        if group.verdict in _STALE or (group.verdict == VerdictName.SETTLING and _is_told(notices.get(group.group_id))):
            stale.add(group.group_id)  # settling is no sign of life: by now, a longer idle time may be demanded
        if group.verdict != KeptName.NOTICE or group.fingerprint is None or group.idle_since is None:
            continue
        before = notices.get(group.group_id)
        if before is None or not is_of_this_idle_time(before, group.fingerprint, parse_time(group.idle_since)):
            before = Notice(fingerprint=group.fingerprint, marked_at=at)
        elif not notice_of(group, rules):  # it only waits for the end of what the message said, to whomever
            found[group.group_id] = before
            continue
        if before.owner != group.owner or before.contact != plan.policy.contact_of(group.owner):
            before = replace(before, contact=None)  # what the last message said holds until the next one
        found[group.group_id] = replace(before, owner=group.owner)
    if not of_all_groups:
        stale |= notices.keys() - {group.group_id for group in plan.kept}
    others = {group_id: notice for group_id, notice in notices.items() if group_id in stale}
    return {**others, **found}


def notice_of(group: KeptGroup, rules: RulesBefore) -> float:
    """Return the notice period of a kept group in seconds, 0 for none: the longest of the rules that may match it."""
    kind = group.group_type or GroupType.UNKNOWN.value  # in doubt, the longest period that may hold
    return rules.most(RuleFacts(group.group_id, kind, group.owner, rule=group.rule), lambda rule: rule.notice_seconds)


def _is_told(notice: Notice | None) -> bool:
    return notice is not None and notice.notified_at is not None


def _written_at(entry: Entry) -> datetime:
    with unless_damaged(JournalError, str(entry.path)):
        return parse_time(entry.data["at"])


def _columns(notices: Mapping[str, Notice]) -> dict[str, list[Any]]:
    ordered = sorted(notices)
    times = {
        name: [None if (time := getattr(notices[group_id], name)) is None else time.isoformat() for group_id in ordered]
        for name in ("marked_at", "notified_at")
    }
    names = ("fingerprint", "owner", "contact", "told_seconds")
    plain = {name: [getattr(notices[group_id], name) for group_id in ordered] for name in names}
    return {"groups": ordered, **plain, **times}


def _parse(entry: Entry, field: str) -> dict[str, Notice]:
    with unless_damaged(JournalError, str(entry.path)):
        marks = entry.data[field]
        names = ("fingerprint", "owner", "contact", "marked_at", "notified_at", "told_seconds")
        return {
            str(group_id): Notice(
                fingerprint=str(fingerprint),
                owner=owner,
                contact=contact,
                marked_at=parse_time(marked_at),
                notified_at=None if notified_at is None else parse_time(notified_at),
                told_seconds=None if told is None else float(told),
            )
            for group_id, fingerprint, owner, contact, marked_at, notified_at, told in zip(
                marks["groups"], *(marks[name] for name in names), strict=True
            )
        }
