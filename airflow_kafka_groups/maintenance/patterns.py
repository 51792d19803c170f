"""Which groups a run may touch: include and exclude patterns over group ids, and prefixes that are always protected.

A pattern is a shell glob (``*``, ``?``, ``[abc]``; upper and lower case differ), or ``re:`` and a regular expression
that has to match the whole id. An id is selected when it matches an include and neither an exclude nor a protected
pattern. The empty group id (brokers allow it) is matched by no glob: only a ``re:`` pattern can mean it.

A pattern that keeps groups is taken widely: it also keeps the group that is spelt just like it (``job[1]`` is a glob
that does not match itself), and the one whose letters are composed in another way (a Mac writes é as two characters).
Blanks around a glob are an error: ``"orders-* "`` would keep nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import translate

from airflow_kafka_groups.exceptions import ConfigurationError

EVERYTHING = ("*",)

DEFAULT_PROTECTED = (
    "__*",  # internal groups of providers and tools: __internal_google_managed_kafka_…, __amazon_msk_…, __strimzi…
    "_confluent*",  # Control Center, ksqlDB (_confluent-ksql-…), balancer, telemetry
    "_schemas*",
    "schema-registry*",
    "connect-*",  # sink connectors: alive without members while paused or scaled to zero
    "mm2-*",
    "mirrormaker*",
    "mirror-maker*",
    "_kafka*",
    "_redpanda*",
    "redpanda*",
    "amazon.msk.*",
    "strimzi*",
    "cruise-control*",
    "CruiseControl*",
)
"""Prefixes of groups that belong to the platform: never deleted unless the policy's ``protected`` says otherwise."""

LEASE_GROUP_ID = "airflow-kafka-groups-lease"
"""The group whose membership is the right to delete (``membership.lease``); with a prefix, the end of its name."""

ALWAYS_PROTECTED = (f"*{LEASE_GROUP_ID}",)
"""Groups that no policy can give away: that of the lease, by which runs exclude each other, whatever its prefix."""

_REGEX = "re:"


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Select group ids; raises ``ConfigurationError`` for a pattern that cannot be read.

    :param include: patterns of which one has to match.
    :param exclude: patterns of which none may match.
    :param protected: patterns of which none may match; kept apart so that giving an ``exclude`` does not lose them.
    """

    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    _compiled: tuple[tuple[re.Pattern[str], ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("include", "exclude", "protected"):
            object.__setattr__(self, name, check_patterns(name, getattr(self, name)))
        compiled = (
            tuple(_compile("include", pattern) for pattern in self.include),
            tuple(_compile("exclude", _composed(pattern)) for pattern in self.exclude),
            tuple(_compile("protected", _composed(pattern)) for pattern in self.protected),
        )
        object.__setattr__(self, "_compiled", compiled)

    def selects(self, group_id: str) -> bool:
        """Say whether the group may be touched."""
        return self.why_not(group_id) is None

    def why_not(self, group_id: str) -> str | None:
        """Give the reason why a group is left alone, or ``None`` when it is selected."""
        include, exclude, protected = self._compiled
        if (pattern := _keeper(self.protected, protected, group_id)) is not None:
            return f"protected by the pattern {pattern!r}"
        if (pattern := _keeper(self.exclude, exclude, group_id)) is not None:
            return f"excluded by the pattern {pattern!r}"
        if not any(expression.fullmatch(group_id) for expression in include):
            return "matches no include pattern"
        return None

    def protects(self, group_id: str) -> bool:
        """Say whether a protected pattern keeps the group."""
        return _keeper(self.protected, self._compiled[2], group_id) is not None


def check_patterns(name: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Give the patterns as a tuple; refuses one bare string, an empty pattern and one that cannot be compiled."""
    if isinstance(patterns, str):
        raise ConfigurationError(name, patterns, f"give a list of patterns, such as [{patterns!r}]")
    try:
        checked = tuple(patterns)
    except TypeError:
        raise ConfigurationError(name, patterns, "give a list of patterns, such as ['team-a.*']") from None
    for pattern in checked:
        _compile(name, pattern)
    return checked


def check_group_ids(name: str, group_ids: Iterable[str], *, allow_empty: bool = False) -> list[str]:
    """Give explicit group ids without duplicates, in the order given; refuses anything that is no list of texts."""
    if isinstance(group_ids, str):
        raise ConfigurationError(name, group_ids, f"give a list of group ids, such as [{group_ids!r}]")
    try:
        given = list(group_ids)
    except TypeError:
        raise ConfigurationError(name, group_ids, "give a list of group ids") from None
    for group_id in given:
        if not isinstance(group_id, str):
            raise ConfigurationError(name, group_id, "every group id has to be a text: put it in quotes")
    if not given and not allow_empty:
        raise ConfigurationError(name, given, "name at least one group")
    return list(dict.fromkeys(given))


def _compile(name: str, pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise ConfigurationError(name, pattern, "every pattern has to be a text: put it in quotes")
    if not pattern or pattern == _REGEX:
        raise ConfigurationError(name, pattern, "remove the empty pattern; '*' matches every group")
    if not pattern.startswith(_REGEX):
        if pattern != pattern.strip():
            raise ConfigurationError(name, pattern, "remove the blanks around it; 're:' can mean ids that have them")
        # A glob never matches the empty id: "*" must not select a group that nobody can see in a list.
        return re.compile(f"(?!\\Z){translate(pattern)}")
    try:
        return re.compile(pattern.removeprefix(_REGEX))
    except re.error as exc:
        raise ConfigurationError(name, pattern, f"mend the regular expression: {exc}") from None


def _keeper(patterns: tuple[str, ...], compiled: tuple[re.Pattern[str], ...], group_id: str) -> str | None:
    if not patterns:
        return None
    composed = _composed(group_id)
    for pattern, expression in zip(patterns, compiled, strict=True):
        if expression.fullmatch(group_id) or expression.fullmatch(composed) or _composed(pattern) == composed:
            return pattern
    return None


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
