"""States of groups, in the broker's own spelling."""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group, in the broker's own spelling."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str | None) -> GroupState:
        """Read the broker's spelling; a state this version does not know is ``UNKNOWN``, never ``EMPTY``."""
        return _BY_NAME.get(text) or _BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_BY_NAME: dict[str | None, GroupState] = {
    spelling: state for state in GroupState for spelling in (state.value, state.value.lower())
}
