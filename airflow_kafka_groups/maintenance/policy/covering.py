"""Which rules leave nothing for later ones: every group that the later rule matches, an earlier one matches, too.

Each rule is compared only with those that may cover it, and its globs are compiled once: of 2,000 rules, there are two
million pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from airflow_kafka_groups.maintenance.patterns import PatternSet
from airflow_kafka_groups.maintenance.policy.rules import Match, Rule

_WILD = frozenset("?[]")
_EXACT = ("owners", "types", "families")
_PATTERNS = ("groups", "topics", "clients")


class Covering:
    """Patterns, of which is known whether they match all that others match. Globs are compiled when first needed."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self._known = frozenset(patterns)

    @cached_property
    def _simple(self) -> PatternSet:
        # A glob with stars alone that matches another glob's spelling matches all that the other matches.
        return PatternSet("groups", tuple(filter(_is_simple, self.patterns)))

    def covers(self, later: Sequence[str]) -> bool:
        """Return whether they match all that others match. None at all match everything."""
        if not self.patterns:
            return True
        if not later:
            return False
        return all(pattern in self._known or (_is_simple(pattern) and self._simple.match(pattern)) for pattern in later)


class CoveringMatch:
    """The conditions of a rule, of which is known whether others are within them."""

    def __init__(self, match: Match) -> None:
        self._excepted = match.excepted
        self._exact = [(name, frozenset(wanted)) for name in _EXACT if (wanted := getattr(match, name))]
        self._patterns = [(name, Covering(wanted)) for name in _PATTERNS if (wanted := getattr(match, name))]

    def covers(self, later: Match) -> bool:
        """Return whether every group that the later conditions match is matched by these, too.

        False where the conditions alone do not show it.
        """
        if self._excepted and self._excepted != later.excepted:
            return False
        for name, wanted in self._exact:
            given = getattr(later, name)
            if not (given and wanted.issuperset(given)):
                return False
        return all(patterns.covers(getattr(later, name)) for name, patterns in self._patterns)


class EarlierRules:
    """The rules before one, by what a rule that they cover must have: a group's id as they match it, or an owner."""

    def __init__(self) -> None:
        self._rules: list[tuple[Rule, CoveringMatch]] = []
        self._others: list[int] = []
        self._by_owner: dict[str, list[int]] = {}
        self._by_pattern: dict[str, list[int]] = {}
        self._by_beginning: dict[str, list[int]] = {}
        self._lengths: set[int] = set()

    def add(self, rule: Rule) -> None:
        """Add the next rule."""
        number, match = len(self._rules), rule.match
        self._rules.append((rule, CoveringMatch(match)))
        if not match.groups and not match.owners:
            self._others.append(number)
        for owner in () if match.groups else match.owners:
            self._by_owner.setdefault(owner, []).append(number)
        for pattern in match.groups:
            self._by_pattern.setdefault(pattern, []).append(number)
        for beginning in {pattern.partition("*")[0] for pattern in match.groups if _is_simple(pattern)}:
            self._by_beginning.setdefault(beginning, []).append(number)
            self._lengths.add(len(beginning))

    def covering(self, match: Match) -> Rule | None:
        """Return the first rule that matches every group that the conditions match; ``None`` if none is known to."""
        for number in sorted(set(self._candidates(match))):
            rule, conditions = self._rules[number]
            if conditions.covers(match):
                return rule
        return None

    def _candidates(self, match: Match) -> Iterator[int]:
        yield from self._others
        for owner in match.owners[:1]:
            yield from self._by_owner.get(owner, ())
        for pattern in match.groups[:1]:
            yield from self._by_pattern.get(pattern, ())
            for length in self._lengths:
                yield from self._by_beginning.get(pattern[:length], ())


def _is_simple(pattern: str) -> bool:
    return not pattern.startswith("re:") and _WILD.isdisjoint(pattern)
