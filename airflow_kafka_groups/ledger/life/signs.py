"""The signs of life: everything by which a group is known to be in use, or to be wanted by somebody."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from airflow_kafka_groups.ledger.history import IdleReset
from airflow_kafka_groups.ledger.outcomes import Reason


class Sign(StrEnum):
    """A kind of sign. Its value completes the sentence "it ...". docs/safety.md has the table."""

    MEMBER = "had a member"
    STATE = "was in a state other than Empty"
    MOVED = "had other committed offsets, or another group epoch (KIP-848), than before"
    KIND = "was of another type or protocol type than before"
    CAME_BACK = "was there again, after a complete snapshot had lacked it"
    FIRST_SEEN = "was seen for the first time, after a complete snapshot had lacked it"
    COMMIT = "moved or committed, or had a member join or leave, by a judgement that may know the log of commits"
    RECHECK = "was found in use or gone by the recheck of a deletion"
    KEPT_ALIVE = "was kept alive"
    RESTORED = "was restored, or its offsets were set"


class SignOfLife(NamedTuple):
    """The last sign of a group.

    :param at: when it was seen.
    :param by: what saw it, such as a snapshot and the folder that it is in.
    """

    sign: Sign
    at: datetime
    by: str

    def reset(self) -> IdleReset:
        """Return the restart of the idle time that follows."""
        reason = f"by {self.by}, at {self.at:%Y-%m-%d %H:%M:%S %Z} it {self.sign.value}"
        return IdleReset(self.at, Reason.ALIVE_BEFORE, reason)


def news_of(sign: SignOfLife | None, idle_since: datetime | None) -> IdleReset | None:
    """Return the restart of an idle time by a sign that the judgement of a group does not know: a later one.

    :param idle_since: since when the group is idle by that judgement; ``None`` if it is not known.
    """
    if sign is None or (idle_since is not None and sign.at <= idle_since):
        return None
    return sign.reset()


def keep_latest(found: dict[str, SignOfLife], more: Iterable[tuple[str, SignOfLife]]) -> None:
    """Add signs of groups to those that are known, of which the latest one of each group counts."""
    for group_id, sign in more:
        if group_id not in found or found[group_id].at < sign.at:
            found[group_id] = sign
