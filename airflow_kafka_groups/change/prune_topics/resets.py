"""What the journal says against pruning a topic of a group. Pure.

A topic counts as deleted from the intent on. Its own deletion or proof of life restarts its idle time, and so does a
deletion of the complete group, or a look that found it gone: whoever made it again may have started it at an older
place.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from airflow_kafka_groups.change.deletion.recheck import Reason
from airflow_kafka_groups.ledger.journal.history import History, IdleReset


class Resets:
    """When idle times of topics restarted."""

    def __init__(self, history: History) -> None:
        self._own = history.idle_resets()
        self._groups = history.deletions()
        self._gone = history.lives(gone=True)

    def why_reset(self, group_id: str, name: str, judged_at: datetime, min_idle_seconds: float) -> IdleReset | None:
        """Return why the idle time of a topic had not passed when it was judged, ``None`` if it had.

        :param name: the topic's name in the journal.
        """
        for reset in self._of(group_id, name):
            if not reset.has_passed(judged_at, min_idle_seconds):
                return reset
        return None

    def _of(self, group_id: str, name: str) -> Iterator[IdleReset]:
        if (own := self._own.get(name)) is not None:
            yield own
        if (deletion := self._groups.get(group_id)) is not None:
            reason = f"run {deletion.run_id} deleted the group, or may have, at {deletion.at:%Y-%m-%d %H:%M:%S %Z}"
            yield IdleReset(deletion.at, Reason.DELETED_BEFORE, reason)
        if (gone := self._gone.get(group_id)) is not None:
            reason = f"run {gone.run_id} found the group gone at {gone.at:%Y-%m-%d %H:%M:%S %Z}"
            yield IdleReset(gone.at, Reason.ALIVE_BEFORE, reason)
