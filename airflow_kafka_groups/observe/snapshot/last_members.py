"""Who used a group last: a look-up in the newest tables of members.

It is for people, and for rules that match by last client. What is not known of a group decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from airflow_kafka_groups.kafka.models import GroupId
from airflow_kafka_groups.observe.snapshot.members import (
    TEXT_LIMIT,
    MembersTable,
    latest_of_groups,
    newest_tables,
    rows_of,
)
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.storage.arrow_schema import to_rows
from airflow_kafka_groups.storage.ids import time_of
from airflow_kafka_groups.storage.layout import Layout

_CLIENTS_SHOWN = 3
_TOPICS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClient:
    """The members of a group with one client id on one host.

    :param members: their number.
    :param topics: the first of the topics that they subscribed to, or whose partitions were assigned to them.
    """

    client_id: str
    host: str
    members: int
    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMembers:
    """The members that a group was last seen with.

    :param snapshot_id: the snapshot that saw them, and ``seen_at`` the time. They may have left at any time after it.
    :param members: their number.
    :param clients: the number of different pairs of client id and host.
    :param seen: the first of these, those with the most members first.
    """

    group_id: GroupId
    snapshot_id: str
    seen_at: datetime
    members: int
    clients: int
    seen: tuple[LastClient, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the kept clients subscribed to, or were assigned, sorted."""
        return tuple(sorted({topic for one in self.seen for topic in one.topics}))

    @property
    def client_id(self) -> str | None:
        """The client id that all members had; ``None`` if they had different ones, or not all of it is kept."""
        ids = {one.client_id for one in self.seen}
        known = len(ids) == 1 and self.clients == len(self.seen)
        return client_id if known and len(client_id := next(iter(ids))) < TEXT_LIMIT else None

    def sentence(self) -> str:
        """Return one sentence for a reader."""
        by = [f"{one.client_id or '(no client id)'} at {one.host.removeprefix('/')}" for one in self.seen]
        more = self.clients - len(by[:_CLIENTS_SHOWN])
        clients = ", ".join(by[:_CLIENTS_SHOWN]) + (f" and {more} more" if more else "")
        topics = self.topics
        rest = f" and {len(topics) - _TOPICS_SHOWN} more" if len(topics) > _TOPICS_SHOWN else ""
        read = f"; topics {', '.join(topics[:_TOPICS_SHOWN])}{rest}" if topics else ""
        return f"{self.seen_at:%Y-%m-%d %H:%M} UTC: {self.members} member(s), {clients}{read}"


class QuietSince(NamedTuple):
    """Since when a group is quiet, by its verdict; ``None``: not known.

    :param first_seen_at: from here on its offsets are known.
    :param last_moved_at: the last change of its offsets that was seen.
    :param empty_since: the first snapshot that saw it empty, and all later ones did.
    """

    group_id: GroupId
    first_seen_at: datetime | None
    last_moved_at: datetime | None
    empty_since: datetime | None

    def is_after(self, members_seen_at: datetime, max_gap: timedelta) -> bool:
        """Return whether nobody moved the offsets but the members that were seen then."""
        moved = self.last_moved_at or self.first_seen_at
        if moved is None or moved <= members_seen_at:
            return moved is not None
        empty = self.empty_since
        return empty is not None and moved <= empty <= members_seen_at + max_gap


def last_members(
    layout: Layout, group_ids: Iterable[GroupId], kafka_cluster_id: str | None
) -> dict[GroupId, LastMembers]:
    """Return the members that groups were last seen with; a group that no snapshot saw with members is left out.

    Tables that cannot be read are left out. Raises ``StorageError``.
    """
    wanted = set(group_ids)
    return _of_tables(newest_tables(layout, kafka_cluster_id)[0], wanted) if wanted else {}


def last_client_ids(
    layout: Layout, quiet_since: Iterable[QuietSince], kafka_cluster_id: str | None, max_gap: timedelta
) -> dict[GroupId, str]:
    """Return the client id that all of the last members of a group had; groups of which it is not known are left out.

    :param max_gap: the longest time between the members' snapshot and the next one, if that saw the group empty, in
        which offsets may have moved: these members, not yet gone, moved them. Other movements are those of somebody
        unseen.

    It is known of no group while one of the newest tables cannot be read: that one may have later members. Raises
    ``StorageError``.
    """
    tables, unreadable = newest_tables(layout, kafka_cluster_id)
    if unreadable:
        return {}
    asked = {quiet.group_id: quiet for quiet in quiet_since}
    ids = snapshot_ids(layout)
    found: dict[GroupId, str] = {}
    for group_id, last in _of_tables(tables, asked).items():
        quiet = asked[group_id]
        gap = max_gap if _is_next(ids, last.snapshot_id, quiet.empty_since) else timedelta(0)
        if last.client_id is not None and quiet.is_after(last.seen_at, gap):
            found[group_id] = last.client_id
    return found


def _is_next(ids: Sequence[str], snapshot_id: str, at: datetime | None) -> bool:
    """Whether what was seen at a time was seen by the next snapshot, so that none between them can have failed to."""
    place = bisect_left(ids, snapshot_id)
    following = ids[place + 2 : place + 3]
    return ids[place : place + 1] == [snapshot_id] and at is not None and all(time_of(id_) > at for id_ in following)


def _of_tables(tables: Iterable[MembersTable], wanted: Collection[GroupId]) -> dict[GroupId, LastMembers]:
    found: dict[GroupId, list[dict[str, Any]]] = {}
    chosen = [table._replace(rows=rows_of(table.rows, wanted)) for table in tables]
    for table, ids in latest_of_groups(chosen):
        for row in to_rows(rows_of(table.rows, ids)):
            found.setdefault(row["group_id"], []).append(row)
    return {group_id: _of_rows(rows) for group_id, rows in found.items()}


def _of_rows(rows: list[dict[str, Any]]) -> LastMembers:
    first = rows[0]
    of_group = {name: first[name] for name in LastMembers.__slots__ if name != "seen"}
    clients = sorted(map(_client, rows), key=lambda one: (-one.members, one.client_id, one.host))
    return LastMembers(**of_group, seen=tuple(clients))


def _client(row: dict[str, Any]) -> LastClient:
    return LastClient(
        client_id=row["client_id"],
        host=row["host"],
        members=row["client_members"],
        topics=frozenset((*(row["topics"] or ()), *row["assigned_topics"])),
    )
