"""The ledger of a Kafka cluster: everything that is known of its groups' lives, whoever saw it.

Whatever decides about a group asks here, and nowhere else: a decision that reads some of the records forgets the
others. The answer says what is known, since when the cluster has been watched, and what could not be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError, SnapshotError
from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.history import DeletionHistory, IdleReset
from airflow_kafka_groups.ledger.life.signs import Sign, SignOfLife, keep_latest
from airflow_kafka_groups.ledger.outcomes import Reason
from airflow_kafka_groups.ledger.records import WHAT, KeptAlive, Records
from airflow_kafka_groups.ledger.run_records import RecordedOutcome
from airflow_kafka_groups.observe.cluster_log import OF_RUNS, TRIES, ClusterLog, Entry
from airflow_kafka_groups.observe.snapshot.cluster_folders import KnownSnapshots, later_snapshots
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.access import unless_damaged, unless_warned
from airflow_kafka_groups.storage.formats import read_model
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.ledger.life.snapshot_signs import SnapshotSigns

log = logging.getLogger(__name__)

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
        found = self.history.idle_resets()
        for group_id, sign in self.seen.items():
            if group_id not in found or found[group_id].at < sign.at:
                found[group_id] = sign.reset()
        return found

    def signs(self) -> dict[str, SignOfLife]:
        """Return the last sign of life of each group, by whatever is known."""
        found = dict(self.seen)
        keep_latest(found, _rechecks(self.history.lives().values()))
        keep_latest(found, ((group_id, _wanted(kept)) for group_id, kept in self.kept_alive.items()))
        return found

    def require_read(self) -> None:
        """Raise ``SnapshotError`` where something could not be read: what it shows is not known."""
        if self.unread:
            raise SnapshotError(
                f"{self.unread[0]}. What it showed is not known, so nothing may be planned or deleted. Restore its "
                "files from a copy, or remove them"
            )


def _wanted(kept: KeptAlive) -> SignOfLife:
    return SignOfLife(Sign.RESTORED if kept.until == kept.at else Sign.KEPT_ALIVE, kept.at, kept.what)


def _rechecks(lives: Iterable[RecordedOutcome]) -> Iterator[tuple[str, SignOfLife]]:
    return ((life.group_id, SignOfLife(Sign.RECHECK, life.at, f"run {life.run_id}")) for life in lives)


class Ledger:
    """The ledger of one Kafka cluster. Not for two threads at once.

    :param layout: the folder of the asking connection.
    :param kafka_cluster_id: the id that the brokers report.
    """

    def __init__(self, layout: Layout, kafka_cluster_id: str | None) -> None:
        self.layout = layout
        self._kafka_cluster_id = kafka_cluster_id
        self._log: ClusterLog | None = None
        self._records = Records()
        self._new: Records | None = None
        self._yielded = KnownSnapshots()
        self._noted: set[str] | None = None

    def history(self) -> DeletionHistory:
        """Return the deletions of the cluster, and the groups that a recheck found in use.

        Raises ``JournalError`` and ``StorageError``.
        """
        records, log = self._read_log()
        return records.deletions.history(log)

    def wanted(self, *kinds: str) -> dict[str, KeptAlive]:
        """Return the groups that keep-alive runs and restores want to stay, also interrupted ones.

        Another program or the brokers may have removed a group that is restored before a snapshot showed that it was
        gone: then it looks as if it had been idle all the time, to a plan that was made before as to the next one.

        :param kinds: the kinds of runs. Default: all.

        Raises ``JournalError`` for a log that is damaged, and ``StorageError``.
        """
        self._log = None
        found, _ = self._read_log()
        self._new = Records()  # not what is read for another question
        return found.groups(kinds)

    def wanted_since(self) -> dict[str, KeptAlive]:
        """Return the groups of runs that were logged since ``wanted`` or this was asked; of all if neither was.

        Raises as ``wanted``.
        """
        if self._new is None or self._log is None:  # also where an error left out what was new
            return self.wanted()
        self._read_log()
        new, self._new = self._new, Records()
        return new.groups()

    def latest_time(self, now: datetime) -> datetime:
        """Return the time of day, or that of the cluster's newest snapshot where this clock is behind it.

        A clean-up compares the times of snapshots with those of keep-alive runs and restores: a clock that is behind
        must not make one look older than it is. Raises as ``wanted``.
        """
        records, _ = self._read_log()
        latest = records.snapshot_at or now
        if latest > now:
            log.warning(
                "The clock says %s, and there is a snapshot of %s: synchronize this machine's clock (NTP)", now, latest
            )
        return max(now, latest)

    def last_kept(self, since: datetime, lasts: timedelta | None = None) -> dict[str, datetime]:
        """Return when the last verified keep-alive of groups began that began since a time. Raises as ``wanted``.

        :param lasts: for how long clean-ups spare the groups: what another connection keeps for less time, by a shorter
            retention, is left out. Default: any time.
        """
        found, _ = self._read_log()
        runs = found.runs.get(WHAT, {})

        def counts(group_id: str, at: datetime) -> bool:
            return lasts is None or (group_id in runs and runs[group_id].until >= at + lasts)

        return {group_id: at for group_id, at in found.verified.items() if at >= since and counts(group_id, at)}

    def tries_of(self, task_run: str) -> list[tuple[str, str]]:
        """Return the folders and run ids of the changes that a task began, oldest first. Raises as ``wanted``."""
        records, _ = self._read_log()
        return records.tries_of(task_run)

    def of_plan(self, plan_id: str, kinds: Collection[str]) -> list[Entry]:
        """Return the entries of these kinds about a plan in this folder, oldest first. Raises as ``wanted``."""
        records, log = self._read_log()
        return [log.entry(*place) for place in records.of_plan(self.layout.cluster, plan_id, kinds)]

    def notices(self) -> dict[str, Notice]:
        """Return the marks of groups that wait for a notice, or whose owner had one. Raises as ``wanted``."""
        records, log = self._read_log()
        with unless_damaged(JournalError, f"what was folded of {log.folder}"):
            return {group_id: read_model(Notice, mark) for group_id, mark in records.marks.items()}

    def append(self, data: Mapping[str, Any], about: Callable[[Records], object]) -> None:
        """Add an entry to the log, durably, unless the log says something else by now than when it was last read.

        :param about: returns what the entry was made by.

        Raises ``JournalError`` where somebody has written meanwhile, and as ``wanted``.
        """
        before = about(self._records)
        for _ in range(TRIES):
            records, log = self._read_log()
            if about(records) != before:
                break
            with suppress(FileExistsAlreadyError):
                return self._fold(log.create(data))
        raise JournalError("somebody else has written to the log of the cluster meanwhile: run again")

    def later(
        self, snapshot_id: str, kafka_cluster_id: str, elsewhere_since: datetime | None = None
    ) -> Iterator[SnapshotReader]:
        """Yield the snapshots that ended after another one began, each once; see ``later_snapshots``.

        Other clusters' folders are looked into once. What a connection writes there that was switched to this cluster
        is found by the log.

        :param elsewhere_since: yield those of other connections that ended since then, too.

        Raises ``SnapshotError`` for one that is damaged, ``JournalError`` for such a log, and ``StorageError``.
        """
        if self._noted is None:
            self._noted = self._folded().folders
        self._yielded.noted |= self._noted | self._read_log()[0].folders
        return later_snapshots(
            self.layout, snapshot_id, kafka_cluster_id, self._yielded, elsewhere_since=elsewhere_since
        )

    def seen(self, group_ids: Iterable[str] | None = None, since: datetime | None = None) -> dict[str, SignOfLife]:
        """Return the last sign of life of groups in the snapshots of all connections, as ``known`` does.

        Raises ``SnapshotError`` for what cannot be read, besides.
        """
        snapshots = self._folded()
        found = snapshots.signs(since, group_ids)
        Known(unread=tuple(snapshots.unread(since))).require_read()
        return found

    def used(self, since: Mapping[str, datetime], set_before: Mapping[str, KeptAlive]) -> dict[str, SignOfLife]:
        """Return the groups that somebody uses, each since a time of its own, with the last sign.

        That a group is gone, or wanted, is no use of it; nor is what a change of offsets may have caused itself.

        :param set_before: what ``wanted`` returned before the asking change was recorded.

        Raises as ``known``, and ``SnapshotError`` for what cannot be read.
        """
        if not since:
            return {}
        found = {
            group_id: sign
            for group_id, sign in self.seen(since, min(since.values())).items()
            if not (sign.sign in BY_CHANGES and group_id in set_before and set_before[group_id].at >= since[group_id])
        }
        lives = self.history().lives().values()
        keep_latest(found, _rechecks(each for each in lives if each.group_id in since and each.code != Reason.GONE))
        return {group_id: sign for group_id, sign in found.items() if sign.at > since[group_id]}

    def known(self, group_ids: Iterable[str] | None = None, since: datetime | None = None) -> Known:
        """Return what is known of groups.

        :param group_ids: the groups whose signs in snapshots are asked for. Default: all.
        :param since: signs in snapshots from before are left out, and so are unreadable snapshots. Default: none are.

        Raises ``JournalError`` and ``MaintenanceError`` for records that are damaged, and ``StorageError``.
        """
        snapshots = self._folded()
        return Known(
            history=snapshots.records.deletions.history(snapshots.log),
            kept_alive=snapshots.records.groups(),
            seen=snapshots.signs(since, group_ids),
            watched_since=snapshots.since,
            watched_until=snapshots.until,
            unread=tuple(snapshots.unread(since)),
        )

    def _read_log(self) -> tuple[Records, ClusterLog]:
        """Return what the log says up to its last entry, and the log: no folder of snapshots is read."""
        log, self._log = self._log, None
        if log is None:
            from airflow_kafka_groups.ledger.life.snapshot_signs import SnapshotSigns

            signs = SnapshotSigns(self.layout, self._kafka_cluster_id)
            self._records, log, self._new = signs.read_records(), signs.log, None
        else:
            for entry in log.read(listed=False):
                self._fold(entry)
        self._log = log  # only now: what an error left out is read again
        return self._records, log

    def _fold(self, entry: Entry) -> None:
        self._records.fold(entry)
        if self._new is not None and entry.data["kind"] not in OF_RUNS:
            self._new.fold(entry)

    def _folded(self) -> SnapshotSigns:
        from airflow_kafka_groups.ledger.life.snapshot_signs import SnapshotSigns

        found = SnapshotSigns(self.layout, self._kafka_cluster_id)
        found.update()
        return found


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
