"""Types of groups, and which of them this package may judge, change and delete.

The only home of that rule: plan, recheck, restore, clients, snapshot, watches, lag and the Spark jobs all ask here.
"""

from __future__ import annotations

from enum import StrEnum


class GroupType(StrEnum):
    """The type of a group, as ListGroups v5 reports it; ``UNKNOWN`` where the broker is too old to report one."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str | None) -> GroupType:
        """Read the broker's spelling; a type this version does not know is ``UNKNOWN``."""
        return _BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_BY_NAME = {kind.value: kind for kind in GroupType}

ELIGIBLE_TYPES = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types that may be changed or deleted: their committed offsets are all there is to lose, and a backup holds them.

A broker deletes a share group just as readily, together with progress that no backup has. ``UNKNOWN`` is not among
them: whoever changes a group has described it a moment before, and a description names the type.
"""

JUDGED_TYPES = ELIGIBLE_TYPES | {GroupType.UNKNOWN}
"""Types that may be judged and planned. Brokers below ListGroups v5 report none, and have classic groups only."""

ELIGIBLE_PROTOCOL_TYPES = frozenset({"", "consumer"})
"""Protocol types that may be judged, changed or deleted: consumers, and clients that only commit (no protocol).

Kafka Connect, schema registries and others use the group protocol for state of their own.
"""

_PROGRESS_ELSEWHERE = frozenset({GroupType.SHARE, GroupType.STREAMS})


def has_eligible_kind(group_type: str, protocol_type: str) -> bool:
    """Return whether a group of this described type and protocol type may be changed or deleted."""
    return group_type in ELIGIBLE_TYPES and protocol_type in ELIGIBLE_PROTOCOL_TYPES


def keeps_progress_elsewhere(group_type: str, protocol_type: str = "") -> bool:
    """Return whether committed offsets do not show a group's progress, so that nobody asks for them.

    That of share groups is in a topic of its own, and that of a Streams application includes its state stores. Some
    brokers report the protocol type only. Such groups are listed and counted, never read. This is narrower than "not
    eligible": the offsets of a Connect group, for example, are read and kept in snapshots.
    """
    return group_type in _PROGRESS_ELSEWHERE or protocol_type in _PROGRESS_ELSEWHERE
