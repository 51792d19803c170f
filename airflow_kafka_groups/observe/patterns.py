"""Group filters: include and exclude patterns over group ids, and prefixes that are always protected.

A pattern is a case-sensitive shell glob (``*``, ``?``, ``[abc]``), or ``re:`` followed by a regular expression of RE2
that must match the complete id. Brokers allow the empty group id: only ``*`` as an include pattern and ``re:`` patterns
select it, and a plan takes ``*`` for ``?*`` (see ``with_a_name``).

Patterns that keep groups match generously: they also keep the group with exactly the pattern's spelling (the glob
``job[1]`` does not match itself), ids that differ only in Unicode composition (macOS decomposes é into two characters),
and what they match without the invisible character that messages put into links. Whitespace around a glob is an error:
``"orders-* "`` would keep nothing. ``*`` keeps the group with the empty id, too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID
from airflow_kafka_groups.kafka.regexes import RegexSet, compile_regex, widened
from airflow_kafka_groups.shown import with_links

EVERYTHING = ("*",)
EMPTY_ID = "re:^$"
"""The pattern of the group with the empty id, and of no other."""
_EVERY_ID = "re:(?s:.*)"

DEFAULT_PROTECTED = (
    "__*",  # internal groups of providers and tools: __internal_google_managed_kafka_…, __amazon_msk_…, __strimzi…
    "_confluent*",  # Control Center, ksqlDB (_confluent-ksql-…), balancer, telemetry
    "_schemas*",
    "schema-registry*",
    "connect-*",  # sink connectors: in use although they have no members while paused or scaled to zero
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
"""Patterns of platform groups: never deleted unless the policy's ``protected`` overrides them."""

ALWAYS_PROTECTED = (f"*{LEASE_GROUP_ID}",)
"""Groups that no policy can release: the lease's group, with any prefix, because it keeps runs apart."""

LIST_TEXT = re.compile(r"""\s*[\[(]\s*(["'].*["']\s*,?\s*)?[\])]\s*""", re.DOTALL)
"""The text of a list of strings, as Python or JSON writes it; ``[0-9]`` is a pattern."""

_REGEX = "re:"
_GLOB_PART = re.compile(r"\*+|\[(?>!?\]?)[^\]]*\]|.", re.DOTALL)
_POSIX = re.compile(r"\[:\^?\w+:\]")
_SET_PART = re.compile(r"(.)-(.)|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """A selection of group ids. Raises ``ConfigurationError`` for an invalid pattern.

    :param include: patterns of which at least one must match.
    :param exclude: patterns of which none may match.
    :param protected: patterns of which none may match; separate, so that setting ``exclude`` does not drop them.
    """

    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    _all: PatternSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("include", "exclude", "protected"):
            object.__setattr__(self, name, check_patterns(name, getattr(self, name)))
        keeping = (*self.protected, *self.exclude)
        include = (_EVERY_ID if pattern == "*" else pattern for pattern in self.include)
        object.__setattr__(self, "_all", PatternSet((*keeping, *include), keeping=range(len(keeping))))

    def selects(self, group_id: str) -> bool:
        """Return whether the group is selected."""
        return self.why_not(group_id) is None

    def why_not(self, group_id: str) -> str | None:
        """Return why a group is not selected, or ``None`` if it is."""
        first = self._all.first(group_id)
        if first is None:
            return "matches no include pattern"
        if first < len(self.protected):
            return f"protected by the pattern {self.protected[first]!r}"
        if (excluded := first - len(self.protected)) < len(self.exclude):
            return f"excluded by the pattern {self.exclude[excluded]!r}"
        return None

    def refused(self, group_ids: Sequence[str]) -> dict[str, str]:
        """Return the groups that are not selected, with the reason: ``why_not`` of many at once."""
        return {group_id: reason for group_id in group_ids if (reason := self.why_not(group_id)) is not None}

    def protects(self, group_id: str) -> bool:
        """Return whether a protected pattern keeps the group."""
        first = self._all.first(group_id)
        return first is not None and first < len(self.protected)


class PatternSet:
    """Patterns, compiled together: one pass over an id finds those that match it.

    :param patterns: valid ones.
    :param keeping: the numbers of patterns that keep groups: they match generously, see the module. Default: none.
    """

    def __init__(self, patterns: Sequence[str], *, keeping: Container[int] = ()) -> None:
        compiled = [
            (number, number in keeping, expression)
            for number, pattern in enumerate(patterns)
            for expression in (map(widened, _keeping(pattern)) if number in keeping else [_expression(pattern)])
        ]
        self._numbers = [number for number, _, _ in compiled]
        self._keeping = [keeps for _, keeps, _ in compiled]
        self._keeps = any(self._keeping)
        self._set = RegexSet([expression for _, _, expression in compiled])

    def matching(self, text: str) -> list[int]:
        """Return the numbers of the patterns that match the complete id, some of them repeatedly."""
        found = [self._numbers[each] for each in self._set.matching(text)]
        if self._keeps and not text.isascii() and (composed := _composed(text)) != text:
            found += [self._numbers[each] for each in self._set.matching(composed) if self._keeping[each]]
        return found

    def match(self, text: str) -> bool:
        """Return whether a pattern matches the complete id."""
        return bool(self.matching(text))

    def first(self, text: str) -> int | None:
        """Return the number of the first pattern that matches the complete id."""
        return min(self.matching(text), default=None)


def with_a_name(include: Iterable[str]) -> tuple[str, ...]:
    """Return include patterns for a deletion: ``*`` is every group but the one with the empty id, as in a rule."""
    return tuple("?*" if pattern == "*" else pattern for pattern in include)


@lru_cache(maxsize=16)
def protecting(patterns: tuple[str, ...]) -> GroupFilter:
    """Return the filter of these protected patterns, compiled once however many groups are asked about."""
    return GroupFilter(protected=patterns)


def check_patterns(name: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns as a tuple. Raises ``ConfigurationError`` for a bare string or an invalid pattern."""
    checked = _items(name, patterns, "patterns")
    for pattern in checked:
        _check(name, pattern)
    return checked


def keeping_expressions(field: str, patterns: Iterable[str]) -> list[str]:
    """Return regular expressions of which one matches an id completely, or its composed form, if patterns keep it.

    They are for programs that match by Python's ``re``. Raises ``ConfigurationError`` for a pattern that it does not
    know, or reads otherwise.
    """
    found = list[str]()
    for pattern in patterns:
        is_same = not (is_regex(pattern) and _POSIX.search(pattern))
        try:
            _ = is_same and re.compile(_expression(pattern))
        except re.error:
            is_same = False
        if not is_same:
            raise ConfigurationError(field, pattern, "write it as Python's re knows it, too, by which Spark jobs match")
        found += _keeping(pattern)
    return list(dict.fromkeys(found))


def spellings_of(text: str) -> tuple[str, ...]:
    """Return a pattern that keeps groups without the blanks around it, and with them if there are any.

    Ids may begin and end with blanks. Who writes such an id means it, and who writes another one means no blank.
    """
    bare = text.strip()
    if bare == text or is_regex(text):
        return tuple(dict.fromkeys((bare, text)))
    return tuple(dict.fromkeys((bare, *(f"{_REGEX}{re.escape(each)}" for each in _spellings(text)))))


def split_patterns(name: str, line: str) -> list[str]:
    """Return the patterns between the commas of a line.

    Raises ``ConfigurationError`` where a comma is within a pattern: the halves of ``re:a{1,3}`` are patterns, too, and
    match something else.
    """
    parts = [part.strip() for part in line.split(",")]
    if len(parts) > 1 and (torn := next(filter(_is_torn, parts), None)) is not None:
        example = json.dumps([line.strip()])
        remedy = f"a comma seems to be part of a pattern ({torn!r}): write a JSON list, such as {example}"
        raise ConfigurationError(name, line, remedy)
    return parts


def _is_torn(pattern: str) -> bool:
    letters = re.sub(r"\\.", "", pattern, flags=re.DOTALL)
    pairs = ("[]", "()", "{}") if is_regex(pattern) else ("[]",)
    return any(letters.count(pair[0]) != letters.count(pair[1]) for pair in pairs)


def check_group_ids(group_ids: Iterable[str], *, allow_empty: bool = False) -> list[str]:
    """Return the group ids without duplicates, in order. Raises ``ConfigurationError`` unless they are strings."""
    given = _items("group_ids", group_ids, "group ids")
    for group_id in given:
        if not isinstance(group_id, str):
            raise ConfigurationError("group_ids", group_id, "every group id must be a string: put it in quotes")
    if not given and not allow_empty:
        raise ConfigurationError("group_ids", given, "must contain at least one group id")
    return list(dict.fromkeys(given))


def _items(name: str, given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigurationError(name, given, f"must be a list of {what}, such as [{given!r}]")
    try:
        return tuple(given)
    except TypeError:
        raise ConfigurationError(name, given, f"must be a list of {what}") from None


def _check(name: str, pattern: object) -> None:
    if not isinstance(pattern, str):
        raise ConfigurationError(name, pattern, "every pattern must be a string: put it in quotes")
    if not pattern or pattern == _REGEX:
        raise ConfigurationError(name, pattern, "remove the empty pattern; '*' matches every group")
    if not is_regex(pattern) and pattern != pattern.strip():
        raise ConfigurationError(
            name, pattern, "remove the whitespace around it; use 're:' to match ids that contain it"
        )
    if LIST_TEXT.fullmatch(pattern):
        raise ConfigurationError(name, pattern, "is the text of a list, and as a glob one letter: pass the list itself")
    if re.search(r"(?<!\\)[\r\n]\Z", pattern):  # as of a file's last line: it matches hardly any id
        raise ConfigurationError(name, pattern, "remove the line end; write it as '\\n' to match ids that end in one")
    for spelling in () if pattern.isascii() and not is_regex(pattern) else _spellings(pattern):  # a glob is valid
        try:
            compile_regex(_expression(spelling))
        except ValueError as error:
            raise ConfigurationError(name, pattern, str(error)) from None


def is_regex(pattern: str) -> bool:
    """Return whether a pattern is a regular expression, and no glob."""
    return pattern.startswith(_REGEX)


@lru_cache(maxsize=1024)
def glob_expression(glob: str, *, star: str = ".*") -> str:
    """Return a glob as a regular expression, which RE2 and Python's ``re`` read alike.

    :param star: what ``*`` becomes. Default: as many characters as possible.
    """
    parts = (_part(found[0], star) for found in _GLOB_PART.finditer(glob))
    return f"(?s:{''.join(parts)})"


def _part(part: str, star: str) -> str:
    if part[0] == "*":
        return star
    if part == "?":
        return "."
    if len(part) == 1:
        return re.escape(part)
    inside, negated = (part[2:-1], "^") if part[1] == "!" else (part[1:-1], "")
    found = ""
    for first, last, one in _SET_PART.findall(inside):
        if one or first <= last:  # a range that ends before it begins has nothing in it
            found += re.escape(one) if one else f"{re.escape(first)}-{re.escape(last)}"
    if not found:
        return "." if negated else f"[^\\x00-{chr(0x10FFFF)}]"
    return f"[{negated}{found}]"


def _expression(pattern: str) -> str:
    if is_regex(pattern):
        return pattern.removeprefix(_REGEX)
    # Rules and owners that are given by "*" are about groups that a list visibly shows.
    return glob_expression(pattern) if pattern.strip("*") else "(?s:.+)"


def _keeping(pattern: str) -> list[str]:
    """Return the expressions by which a pattern keeps groups: also the one with exactly its spelling."""
    return [each for spelling in _spellings(pattern) for each in (_expression(spelling), re.escape(spelling))]


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _spellings(pattern: str) -> tuple[str, ...]:
    composed = _composed(pattern)
    return tuple(dict.fromkeys((composed, with_links(composed), *((EMPTY_ID,) if pattern == "*" else ()))))
