"""Which groups that were named are known to be alive: nobody has judged them, so what the ledger knows decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from airflow_kafka_groups.change.deletion.guards.exclusions import spare
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.ledger.journal.history import IdleReset
from airflow_kafka_groups.ledger.ledger import Known, Ledger
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, kept
from airflow_kafka_groups.storage.layout import Layout


class NamedSigns:
    """The signs of life of named groups, as a plan would heed them.

    :param idle_seconds: the idle time, in seconds, that a group must have.
    """

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
