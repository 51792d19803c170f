"""Names of what the Spark job finds about a group, and of why a plan keeps a group nevertheless."""

from __future__ import annotations

from enum import StrEnum


class VerdictName(StrEnum):
    """What the job finds about a group, in the order in which it decides. Only ``STALE`` groups can be planned."""

    UNREADABLE = "unreadable"
    UNTOUCHABLE = "untouchable"
    LIVE = "live"
    NO_OFFSETS = "no_offsets"
    MOVING = "moving"
    SETTLING = "settling"
    STALE = "stale"


class KeptName(StrEnum):
    """Why a plan keeps a group that the job found stale. The last four are by a rule of the policy file."""

    PROTECTED = "protected"
    EXCLUDED = "excluded"
    DOUBT = "doubt"
    OVER_CAP = "over_cap"
    BY_RULE = "by_rule"
    REPORTED = "reported"
    WAITING = "waiting"
    NOTICE = "notice"


class KeptTopic(StrEnum):
    """Why a topic that nobody in its group is subscribed to is kept."""

    MISSING = "topic_missing"
    GROUP_IDLE = "group_idle"
    SETTLING = "settling"
    PROTECTED = "protected"
    EXCLUDED = "excluded"
    BY_RULE = "by_rule"
    NOTICE = "notice"
    KIND = "wrong_kind"
    DOUBT = "doubt"
    OVER_CAP = "over_cap"
