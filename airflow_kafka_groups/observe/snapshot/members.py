"""The last known members of groups: a small table beside a snapshot's rows. For people; not known decides nothing.

A group that is planned has had no members for a long time, often longer than snapshots are kept. So each table has,
for every group that still exists, those of the last snapshot that saw any, up to the limits below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupDescription, GroupId, MemberDescription
from airflow_kafka_groups.observe.snapshot.reader import MOST_PASSED, load_manifest, snapshot_ids
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotFile, SnapshotManifest
from airflow_kafka_groups.storage.paths import time_of
from airflow_kafka_groups.storage.schemas import MEMBER_COLUMNS, arrow_schema, to_rows
from airflow_kafka_groups.storage.sealed_table import read_sealed, write_sealed

CLIENTS_KEPT = 10
"""The most clients of a group that are kept, those with the most members first."""

TEXT_LIMIT = 200
"""The most characters that are kept of a client id or a host."""

TOPICS_KEPT = 20
"""The most topics that are kept of a client, in alphabetical order."""

_TABLES_READ = 3
_MOST_UNREADABLE = 10


def write_members(
    layout: Layout,
    snapshot_id: str,
    seen: Iterable[Mapping[str, Any]],
    existing: Collection[GroupId] | None,
    kafka_cluster_id: str | None,
) -> SnapshotFile:
    """Write the members of a snapshot, and those that other groups were last seen with; return what vouches for them.

    :param seen: the rows of ``member_rows``.
    :param existing: the groups of the cluster: nothing is carried on about others. ``None`` if a broker did not answer
        the listing, so that nobody knows.
    :param kafka_cluster_id: the cluster. Groups of another one that the folder was used for may have the same ids.

    An older table that cannot be read is left out. Raises ``StorageError``.
    """
    import pyarrow as pa

    rows, schema = list(seen), arrow_schema(MEMBER_COLUMNS)
    own = pa.table([column([row.get(each.name) for row in rows], each.type) for each in schema], schema=schema)
    older, _ = newest_tables(layout, kafka_cluster_id)
    if existing is not None:
        older = [rows_of(table, existing) for table in older]
    return write_sealed(layout.members(snapshot_id), latest_of_groups([own, *older]).sort_by("group_id"))


def newest_tables(layout: Layout, kafka_cluster_id: str | None) -> tuple[list[Any], list[str]]:
    """Return a cluster's newest tables of members, newest first, and the snapshots whose table cannot be read.

    More than one, because two snapshots may be taken at the same time, and none has the other's. Those of another
    cluster, such as a standby, are passed over: what a table lacks, no later one has. At most 1,000 are, and at most 10
    whose table cannot be read. Raises ``StorageError``.
    """
    tables, unreadable = list[Any](), list[str]()
    for snapshot_id in snapshot_ids(layout)[: -MOST_PASSED - 1 : -1]:
        if len(tables) == _TABLES_READ or len(unreadable) == _MOST_UNREADABLE:
            break
        try:
            manifest = load_manifest(layout, snapshot_id)
            if manifest.kafka_cluster_id == kafka_cluster_id:
                tables.append(read_members(layout, manifest))
        except SnapshotError:
            unreadable.append(snapshot_id)
    return tables, unreadable


def read_members(layout: Layout, manifest: SnapshotManifest) -> Any:
    """Return a snapshot's table of members, as a ``pyarrow.Table`` with the columns of ``MEMBER_COLUMNS``.

    Raises ``SnapshotError`` if it is missing or differs from what the manifest vouches for, and ``StorageError``.
    """
    return read_sealed(layout.members(manifest.snapshot_id), "members", MEMBER_COLUMNS, manifest.members.sha256)


def latest_of_groups(tables: Sequence[Any]) -> Any:
    """Return the latest members of each group, from the first table that has them."""
    import pyarrow as pa

    latest: dict[GroupId, tuple[int, int]] = {}
    for number, table in enumerate(tables):
        times = table["seen_at"].cast(pa.int64()).to_pylist()
        for group_id, seen_at in zip(table["group_id"].to_pylist(), times, strict=True):
            if group_id not in latest or latest[group_id][0] < seen_at:
                latest[group_id] = (seen_at, number)
    by_table = [[id_ for id_, (_, place) in latest.items() if place == number] for number in range(len(tables))]
    return pa.concat_tables(map(rows_of, tables, by_table))


def rows_of(table: Any, group_ids: Collection[GroupId]) -> Any:
    """Return the rows of these groups."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(pc.is_in(table["group_id"], value_set=column(sorted(group_ids), pa.string())))


def member_rows(group: GroupDescription, snapshot_id: str, seen_at: datetime) -> Iterator[dict[str, Any]]:
    """Yield a row for each client id and host of a group's members, those with the most members first."""
    by_client: dict[tuple[str, str], list[MemberDescription]] = defaultdict(list)
    for member in group.members:
        by_client[_cut(member.client_id), _cut(member.host)].append(member)
    most_members = sorted(by_client.items(), key=lambda item: (-len(item[1]), item[0]))
    for (client_id, host), members in most_members[:CLIENTS_KEPT]:
        topics = {topic for member in members for topic in member.subscribed_topics or ()}
        topics |= {where.topic for member in members for where in member.assignment}
        yield {
            "group_id": group.group_id,
            "snapshot_id": snapshot_id,
            "seen_at": seen_at,
            "members": len(group.members),
            "clients": len(by_client),
            "client_id": client_id,
            "host": host,
            "client_members": len(members),
            "topics": sorted(topics)[:TOPICS_KEPT],
        }


def _cut(text: str) -> str:
    return text[:TEXT_LIMIT]


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


def _of_tables(tables: Sequence[Any], wanted: Collection[GroupId]) -> dict[GroupId, LastMembers]:
    found: dict[GroupId, list[dict[str, Any]]] = {}
    if tables:
        for row in to_rows(latest_of_groups([rows_of(table, wanted) for table in tables])):
            found.setdefault(row["group_id"], []).append(row)
    return {group_id: _of_rows(rows) for group_id, rows in found.items()}


def _of_rows(rows: list[dict[str, Any]]) -> LastMembers:
    first = rows[0]
    of_group = {name: first[name] for name in LastMembers.__slots__ if name != "seen"}
    clients = (
        LastClient(
            client_id=row["client_id"],
            host=row["host"],
            members=row["client_members"],
            topics=frozenset(row["topics"]),
        )
        for row in rows
    )
    return LastMembers(**of_group, seen=tuple(sorted(clients, key=lambda one: (-one.members, one.client_id, one.host))))
