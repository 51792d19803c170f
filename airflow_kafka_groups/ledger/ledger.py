"""The ledger of a Kafka cluster: everything that is known of its groups' lives, whoever saw it.

Whatever decides about a group asks here, and nowhere else: a decision that reads some of the records forgets the
others. The answer says what is known, since when the cluster has been watched, and what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.ledger.audit import read_history
from airflow_kafka_groups.ledger.journal.history import DeletionHistory, IdleReset, RecordedOutcome
from airflow_kafka_groups.ledger.keep_alive_records import KeptAlive
from airflow_kafka_groups.ledger.life.signs import Sign, SignOfLife, latest
from airflow_kafka_groups.ledger.life.wanted import KeepAliveRecords, last_kept
from airflow_kafka_groups.ledger.outcomes import Reason
from airflow_kafka_groups.observe.snapshot.cluster_folders import other_folders
from airflow_kafka_groups.observe.snapshot.later_snapshots import KnownSnapshots, later_snapshots
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import CHANGES

BY_CHANGES = frozenset({Sign.MOVED, Sign.KIND, Sign.CAME_BACK, Sign.FIRST_SEEN, Sign.COMMIT})
"""The signs that a recorded change of offsets may have caused itself."""
_NOT_FOLDED = "What snapshots show of the lives of groups is not folded: %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the groups of a cluster.

    :param history: its deletions, and the groups that a recheck found in use.
    :param kept_alive: the groups that keep-alive runs and restores want to stay.
    :param seen: the last sign of life of each group in the snapshots of all connections.
    :param watched_since: when the oldest snapshot of the cluster was taken; ``None``: nobody has taken one.
    :param watched_until: when the newest one was taken.
    :param unread: what could not be read, a sentence each: what it shows is not known.
    """

    history: DeletionHistory = field(default_factory=DeletionHistory)
    kept_alive: Mapping[str, KeptAlive] = field(default_factory=dict)
    seen: Mapping[str, SignOfLife] = field(default_factory=dict)
    watched_since: datetime | None = None
    watched_until: datetime | None = None
    unread: tuple[str, ...] = ()

    def resets(self) -> dict[str, IdleReset]:
        """Return when the idle times of groups restarted at the latest: by the journal, or by a snapshot."""
        return with_signs(self.history.idle_resets(), self.seen)

    def signs(self) -> dict[str, SignOfLife]:
        """Return the last sign of life of each group, by whatever is known."""
        found = dict(self.seen)
        lives = {life.group_id: SignOfLife(Sign.RECHECK, life.at, f"run {life.run_id}") for life in self._lives()}
        for more in (lives, {id_: _wanted(kept) for id_, kept in self.kept_alive.items()}):
            for group_id, sign in more.items():
                found[group_id] = latest((found.get(group_id), sign)) or sign
        return found

    def _lives(self) -> Iterable[RecordedOutcome]:
        return self.history.lives().values()

    def require_read(self) -> None:
        """Raise ``SnapshotError`` where something could not be read: what it shows is not known."""
        if self.unread:
            raise SnapshotError(
                f"{self.unread[0]}. What it showed is not known, so nothing may be planned or deleted. Restore its "
                "files from a copy, or remove them"
            )


def _wanted(kept: KeptAlive) -> SignOfLife:
    return SignOfLife(Sign.RESTORED if kept.until == kept.at else Sign.KEPT_ALIVE, kept.at, kept.what)


def with_signs(resets: Mapping[str, IdleReset], signs: Mapping[str, SignOfLife]) -> dict[str, IdleReset]:
    """Return when idle times restarted at the latest, by the journal or by a sign of life."""
    found = dict(resets)
    for group_id, sign in signs.items():
        if group_id not in found or found[group_id].at < sign.at:
            found[group_id] = sign.reset()
    return found


class Ledger:
    """The ledger of one Kafka cluster. Not for two threads at once.

    :param layout: the folder of the asking connection.
    :param kafka_cluster_id: the id that the brokers report.
    """

    def __init__(self, layout: Layout, kafka_cluster_id: str | None) -> None:
        self.layout = layout
        self._kafka_cluster_id = kafka_cluster_id
        self._wanted = KeepAliveRecords(layout, kafka_cluster_id)
        self._yielded = KnownSnapshots()

    def history(self) -> DeletionHistory:
        """Return the deletions of the cluster, and the groups that a recheck found in use.

        Raises ``JournalError`` and ``StorageError``.
        """
        return read_history(self.layout, self._kafka_cluster_id)

    def wanted(self, *kinds: str) -> dict[str, KeptAlive]:
        """Return the groups that keep-alive runs and restores want to stay.

        :param kinds: the kinds of runs. Default: both.

        Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
        """
        if kinds:
            return KeepAliveRecords(self.layout, self._kafka_cluster_id, kinds).read()
        return self._wanted.read()

    def wanted_since(self) -> dict[str, KeptAlive]:
        """Return the groups of those that were recorded since the last question. Raises as ``wanted``."""
        return self._wanted.read_new()

    def last_kept(self, since: datetime, *, by_all: bool = False) -> dict[str, datetime]:
        """Return when the last verified keep-alive of each group began that began since a time.

        :param by_all: count the runs of all connections to the cluster, too. Default: only those of this one.

        Raises ``StorageError``.
        """
        folders = [self.layout]
        if by_all:
            folders += [other for other, inside in other_folders(self.layout) if CHANGES in inside]
        found: dict[str, datetime] = {}
        for folder in folders:
            for group_id, at in last_kept(folder, since, self._kafka_cluster_id).items():
                found[group_id] = max(at, found.get(group_id, at))
        return found

    def later(
        self, snapshot_id: str, kafka_cluster_id: str, elsewhere_since: datetime | None = None
    ) -> Iterator[SnapshotReader]:
        """Yield the snapshots that ended after another one began, each once; see ``later_snapshots``.

        :param elsewhere_since: yield those of other connections that ended since then, too.

        Raises ``SnapshotError`` for one that is damaged, and ``StorageError``.
        """
        return later_snapshots(
            self.layout, snapshot_id, kafka_cluster_id, self._yielded, elsewhere_since=elsewhere_since
        )

    def seen(self, group_ids: Iterable[str] | None = None, since: datetime | None = None) -> dict[str, SignOfLife]:
        """Return the last sign of life of groups in the snapshots of all connections, as ``known`` does.

        Raises ``SnapshotError`` for what cannot be read, besides.
        """
        known = self._snapshots(group_ids, since)
        known.require_read()
        return dict(known.seen)

    def used(self, since: Mapping[str, datetime], set_before: Mapping[str, KeptAlive]) -> dict[str, SignOfLife]:
        """Return the groups that somebody uses, each since a time of its own, with the last sign.

        That a group is gone, or wanted, is no use of it; nor is what a change of offsets may have caused itself.

        :param set_before: what ``wanted`` returned before the asking change was recorded.

        Raises as ``known``, and ``SnapshotError`` for what cannot be read.
        """
        if not since:
            return {}
        known = self._snapshots(since, min(since.values()))
        known.require_read()
        found = {
            group_id: sign
            for group_id, sign in known.seen.items()
            if not (sign.sign in BY_CHANGES and group_id in set_before and set_before[group_id].at >= since[group_id])
        }
        for life in self.history().lives().values():
            if life.group_id in since and life.code != Reason.GONE.value:
                sign = SignOfLife(Sign.RECHECK, life.at, f"run {life.run_id}")
                found[life.group_id] = latest((found.get(life.group_id), sign)) or sign
        return {group_id: sign for group_id, sign in found.items() if sign.at > since[group_id]}

    def known(self, group_ids: Iterable[str] | None = None, since: datetime | None = None) -> Known:
        """Return what is known of groups.

        :param group_ids: the groups whose signs in snapshots are asked for. Default: all.
        :param since: signs in snapshots from before are left out, and so are unreadable snapshots. Default: none are.

        Raises ``JournalError`` and ``MaintenanceError`` for records that are damaged, and ``StorageError``.
        """
        return replace(
            self._snapshots(group_ids, since),
            history=self.history(),
            kept_alive=self.wanted(),
        )

    def _snapshots(self, group_ids: Iterable[str] | None, since: datetime | None) -> Known:
        from airflow_kafka_groups.ledger.life.snapshot_signs import SnapshotSigns

        snapshots = SnapshotSigns(self.layout, self._kafka_cluster_id)
        snapshots.update()
        return Known(
            seen=snapshots.signs(since, group_ids),
            watched_since=snapshots.since,
            watched_until=snapshots.until,
            unread=tuple(snapshots.unread(since)),
        )


def fold_snapshots(layout: Layout, kafka_cluster_id: str | None) -> None:
    """Take the snapshots into account that were taken since the last time, so that no decision waits for that.

    What fails here is a warning: the next decision does it again, and fails.
    """
    if kafka_cluster_id is None:  # brokers that start may not know it yet
        return
    with unless_warned(_NOT_FOLDED):
        fold_for_removal(layout, kafka_cluster_id)


def fold_for_removal(layout: Layout, kafka_cluster_id: str | None) -> dict[str, str]:
    """Take the snapshots into account, durably, so that some may be removed: decisions may ask for them still.

    Return those of this folder that cannot be read, with the reason: what they show is not known.

    Raises ``JournalError`` for a log that is damaged, or without the cluster's id, and ``StorageError``.
    """
    from airflow_kafka_groups.ledger.life.snapshot_signs import SnapshotSigns

    signs = SnapshotSigns(layout, kafka_cluster_id)
    signs.update(durable=True)
    return signs.unread_in(layout.cluster)
