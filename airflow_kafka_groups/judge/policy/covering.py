"""Which rules leave nothing for later ones: every group that the later rule matches, an earlier one matches, too.

Each rule is compared only with those that may cover it, and its globs are compiled once: of 2,000 rules, there are two
million pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from airflow_kafka_groups.judge.policy.rules import Match, Rule
from airflow_kafka_groups.observe.patterns import PatternSet, is_regex

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
        # A glob with stars alone that matches the spelling of another one without brackets matches all that it matches.
        return PatternSet(tuple(filter(_is_simple, self.patterns)))

    def covers(self, later: Sequence[str]) -> bool:
        """Return whether they match all that others match. None at all match everything."""
        if not self.patterns:
            return True
        if not later:
            return False
        return all(
            pattern in self._known or (_has_no_set(pattern) and self._simple.match(pattern)) for pattern in later
        )


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


class _Index:
    """Rules by their values of one condition: as these are spelled, and globs by their beginning and end."""

    def __init__(self) -> None:
        self._by_value: dict[str, list[int]] = {}
        self._by_ends: dict[tuple[str, str], list[int]] = {}
        self._lengths: set[tuple[int, int]] = set()

    def add(self, value: str, number: int) -> None:
        """Add a rule by one of its values."""
        self._by_value.setdefault(value, []).append(number)
        if "*" in value and _is_simple(value):
            ends = value.partition("*")[0], value.rpartition("*")[2]
            numbers = self._by_ends.setdefault(ends, [])
            if numbers[-1:] != [number]:  # of a rule, many globs may have the same ends
                numbers.append(number)
            self._lengths.add((len(ends[0]), len(ends[1])))

    def find(self, value: str) -> Iterator[int]:
        """Yield the rules with a value that may cover this one."""
        yield from self._by_value.get(value, ())
        for first, last in self._lengths:
            yield from self._by_ends.get((value[:first], value[len(value) - last :]), ())


class EarlierRules:
    """The rules before one, by what a rule that they cover must have: a value of their first condition of these."""

    def __init__(self) -> None:
        self._rules: list[tuple[Rule, CoveringMatch]] = []
        self._others: list[int] = []
        self._by = {name: _Index() for name in ("groups", "owners", "topics", "clients")}

    def add(self, rule: Rule) -> None:
        """Add the next rule."""
        number, match = len(self._rules), rule.match
        self._rules.append((rule, CoveringMatch(match)))
        given = next((name for name in self._by if getattr(match, name)), None)
        if given is None:
            self._others.append(number)
            return
        for value in getattr(match, given):
            self._by[given].add(value, number)

    def covering(self, later: Rule) -> Rule | None:
        """Return the first rule that matches every group that a later one matches; ``None`` if none is known to."""
        match = later.match
        is_wider = not later.deletes and not _is_plain(match)  # than a rule that deletes by the same patterns
        for number in sorted(set(self._candidates(match))):
            rule, conditions = self._rules[number]
            if conditions.covers(match) and not (is_wider and rule.deletes and _has_patterns(rule.match)):
                return rule
        return None

    def _candidates(self, match: Match) -> Iterator[int]:
        yield from self._others
        for name, index in self._by.items():
            for value in getattr(match, name)[:1]:
                yield from index.find(value)


def _has_patterns(match: Match) -> bool:
    return bool(match.groups or match.excepted or match.clients)


def _is_plain(match: Match) -> bool:
    """Whether the patterns match the same where they keep and where they delete."""
    patterns = (*match.groups, *match.excepted, *match.clients)
    return all(pattern.isascii() and _is_simple(pattern) for pattern in patterns)


def _has_no_set(pattern: str) -> bool:
    return not is_regex(pattern) and "[" not in pattern


def _is_simple(pattern: str) -> bool:
    return not is_regex(pattern) and _WILD.isdisjoint(pattern)
