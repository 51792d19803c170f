"""The records of keep-alive runs and restores in ``changes/``: which groups somebody wants to stay, and since when.

They have names of their own, so that they are found without reading the records of other changes. A run writes the
first file before it commits anything and the second one afterwards, so a run without a second file was interrupted: its
groups may have been kept alive, or restored. Each reader takes the file that is safe for it. The time of a run is when
it began: for what is due by the worker's own clock; for what a clean-up spares, no earlier than what others recorded
before. Whatever may create a group has the record of a restore: also offsets that are set, or committed for a backlog.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath

_MOVES = ("reset", "delete offsets")
_BEGIN = 8_192
"""Bytes in which a record says what it is of; what is no longer is read at once."""


def read_unless_move(path: StoragePath) -> bytes | None:
    """Read the record of a change; of one that creates no group only the beginning: it may have hundreds of megabytes.

    Return ``None`` if there is none. Raises ``StorageError``.
    """
    try:
        begin = FILES.read(path, 0, _BEGIN)
    except StorageError:  # an object store has no part of an empty file; every other error is raised again
        return FILES.read(path)
    is_enough = begin is None or without_moves(begin) != begin or (len(begin) < _BEGIN and _is_json(begin))
    return begin if is_enough else FILES.read(path)


def _is_json(data: bytes) -> bool:
    """Return whether a record is complete: a storage may return fewer bytes than it was asked for."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def without_moves(data: bytes) -> bytes:
    """Return the record of a change that creates no group without its groups; that of any other as it is."""
    try:
        return shorter if json.loads(shorter := without_groups(data))["what"] in _MOVES else data
    except (ValueError, KeyError, TypeError, RecursionError):
        return data


def without_groups(data: bytes) -> bytes:
    """Return the record of a change, which may be incomplete, without its groups: these are at its end."""
    head, groups, _ = data.partition(b'"groups": [')
    return head + groups + b"]}" if groups else data


WHAT = "keep-alive"
RESTORE = "restore"
SHOWN = {WHAT: "a keep-alive run", RESTORE: "a restore"}
KINDS = tuple(SHOWN)
KEPT_AT = "kept_at"
KEPT_UNTIL = "kept_until"
KAFKA_CLUSTER_ID = "kafka_cluster_id"


@dataclass(frozen=True, slots=True)
class KeptAlive:
    """A group that a keep-alive run meant to keep, or that was to be restored.

    :param at: when the run began.
    :param until: when its effect ends: no later than the brokers may forget the group. A restore's ends at once: only
        the idle time counts from it.
    :param what: what wants the group to stay, as the subject of a sentence.
    :param own_end: when the effect of this run ends, where that of an earlier one ends later. Default: at ``until``.
    """

    at: datetime
    until: datetime
    what: str = SHOWN[WHAT]
    own_end: datetime | None = None

    @property
    def lasts(self) -> timedelta:
        """For how long after it began the brokers remembered the group: by the retention that the run found."""
        return (self.own_end or self.until) - self.at

    def holds(self, now: datetime, judged_at: datetime, least_idle: float) -> bool:
        """Return whether the group is to stay: its effect has not ended, or too little time passed since.

        :param judged_at: when somebody looked at the group: later on nobody knows.
        :param least_idle: the idle time that a deletion asks for, in seconds; it counts from the run.
        """
        return self.until > now or (judged_at - self.at).total_seconds() < least_idle


def tag_of(what: str) -> str:
    """Return what the names of a change's files have after the run's id: nothing where nobody looks for them.

    :param what: the kind of change.
    """
    return f"{what}-" if what in SHOWN else ""
