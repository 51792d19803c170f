"""Group filters: include and exclude patterns over group ids, and prefixes that are always protected.

A pattern is a case-sensitive shell glob (``*``, ``?``, ``[abc]``), or ``re:`` followed by a regular expression that
must match the complete id. An id is selected if it matches an include pattern and neither an exclude nor a protected
pattern. Brokers allow the empty group id. Only ``*`` as an include pattern, which is also the default, and ``re:``
patterns select it; a plan takes ``*`` for ``?*`` (see ``with_a_name``).

Patterns that keep groups match generously: they also keep the group with exactly the pattern's spelling (the glob
``job[1]`` does not match itself), ids that differ only in Unicode composition (macOS decomposes é into two characters),
and what they match without the invisible character that messages put into links. Whitespace around a glob is an error:
``"orders-* "`` would keep nothing. ``*`` keeps the group with the empty id, too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from itertools import compress

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.maintenance.shown import with_links
from airflow_kafka_groups.models import LEASE_GROUP_ID

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

_REGEX = "re:"


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
    _include: PatternSet = field(init=False, repr=False, compare=False)
    _exclude: KeepingPatterns = field(init=False, repr=False, compare=False)
    _protected: KeepingPatterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("include", "exclude", "protected"):
            object.__setattr__(self, name, check_patterns(name, getattr(self, name)))
        include = tuple(_EVERY_ID if pattern == "*" else pattern for pattern in self.include)
        object.__setattr__(self, "_include", PatternSet("include", include))
        object.__setattr__(self, "_exclude", KeepingPatterns("exclude", self.exclude))
        object.__setattr__(self, "_protected", KeepingPatterns("protected", self.protected))

    def selects(self, group_id: str) -> bool:
        """Return whether the group is selected."""
        return self.why_not(group_id) is None

    def why_not(self, group_id: str) -> str | None:
        """Return why a group is not selected, or ``None`` if it is."""
        if (pattern := self._protected.keeper(group_id)) is not None:
            return f"protected by the pattern {pattern!r}"
        if (pattern := self._exclude.keeper(group_id)) is not None:
            return f"excluded by the pattern {pattern!r}"
        if not self._include.match(group_id):
            return "matches no include pattern"
        return None

    def refused(self, group_ids: Sequence[str]) -> dict[str, str]:
        """Return the groups that are not selected, with the reason: ``why_not`` of many at once."""
        selected = self._include.matching(group_ids)
        selected -= self._protected.keeping(group_ids) | self._exclude.keeping(group_ids)
        left = [group_id for group_id in group_ids if group_id not in selected]
        return {group_id: reason for group_id in left if (reason := self.why_not(group_id)) is not None}

    def protects(self, group_id: str) -> bool:
        """Return whether a protected pattern keeps the group."""
        return self._protected.keeper(group_id) is not None


class PatternSet:
    """Compiled patterns. All globs are one expression, so that most ids are settled by a single match."""

    def __init__(self, name: str, patterns: tuple[str, ...]) -> None:
        self.expressions = tuple(_compile(name, pattern) for pattern in patterns)
        # Regular expressions stay apart: flags and numbered groups of one would change the meaning of another.
        globs = [each.pattern for given, each in zip(patterns, self.expressions, strict=True) if not is_regex(given)]
        regexes = [each for given, each in zip(patterns, self.expressions, strict=True) if is_regex(given)]
        self._any = tuple([re.compile("|".join(globs)), *regexes] if globs else regexes)

    def match(self, group_id: str) -> bool:
        """Return whether a pattern matches the complete id."""
        for expression in self._any:  # noqa: SIM110  # a generator takes twice as long
            if expression.fullmatch(group_id):
                return True
        return False

    def matching(self, group_ids: Sequence[str]) -> set[str]:
        """Return the ids that a pattern matches."""
        found: set[str] = set()
        for expression in self._any:
            found.update(compress(group_ids, map(expression.fullmatch, group_ids)))
        return found


class KeepingPatterns:
    """Patterns that keep groups: they match generously, see the module."""

    def __init__(self, name: str, patterns: tuple[str, ...]) -> None:
        spelled = [(pattern, spelling) for pattern in patterns for spelling in _spellings(pattern)]
        self._patterns, self._spellings = [pattern for pattern, _ in spelled], [spelling for _, spelling in spelled]
        self._known_spellings = frozenset(self._spellings)
        self._compiled = PatternSet(name, tuple(self._spellings))

    def keeps(self, group_id: str) -> bool:
        """Return whether a pattern keeps the group."""
        if group_id in self._known_spellings or self._compiled.match(group_id):
            return True
        if group_id.isascii():
            return False
        composed = _composed(group_id)
        return composed in self._known_spellings or self._compiled.match(composed)

    def keeping(self, group_ids: Sequence[str]) -> set[str]:
        """Return the groups that a pattern keeps."""
        found = self._compiled.matching(group_ids)
        found.update(self._known_spellings.intersection(group_ids))
        if not all(map(str.isascii, group_ids)):
            found.update(filter(self.keeps, group_ids))
        return found

    def keeper(self, group_id: str) -> str | None:
        """Return the first pattern that keeps the group."""
        if not self.keeps(group_id):
            return None
        composed = _composed(group_id)
        for pattern, spelling, expression in zip(
            self._patterns, self._spellings, self._compiled.expressions, strict=True
        ):
            if expression.fullmatch(group_id) or expression.fullmatch(composed) or spelling == composed:
                return pattern
        return None


def with_a_name(include: Iterable[str]) -> tuple[str, ...]:
    """Return include patterns for a deletion: ``*`` is every group but the one with the empty id, as in a rule."""
    return tuple("?*" if pattern == "*" else pattern for pattern in include)


@lru_cache(maxsize=16)
def protecting(patterns: tuple[str, ...]) -> GroupFilter:
    """Return the filter of these protected patterns, compiled once however many groups are asked about."""
    return GroupFilter(protected=patterns)


def check_patterns(name: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns as a tuple. Raises ``ConfigurationError`` for a bare string or an invalid pattern."""
    if isinstance(patterns, str):
        raise ConfigurationError(name, patterns, f"must be a list of patterns, such as [{patterns!r}]")
    try:
        checked = tuple(patterns)
    except TypeError:
        raise ConfigurationError(name, patterns, "must be a list of patterns, such as ['team-a.*']") from None
    for pattern in checked:
        _compile(name, pattern)
    return checked


def keeping_expressions(patterns: Iterable[str]) -> list[str]:
    """Return regular expressions of which one matches an id completely, or its composed form, if patterns keep it.

    They are for programs with another version of Python.
    """
    found = list[str]()
    for pattern in (spelling for given in patterns for spelling in _spellings(given)):
        if is_regex(pattern):
            found.append(pattern.removeprefix(_REGEX))
        else:
            found.append(rf"(?!\Z){glob_expression(pattern)}")
        found.append(re.escape(pattern))  # as ``KeepingPatterns`` keeps it
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
    if isinstance(group_ids, str):
        raise ConfigurationError("group_ids", group_ids, f"must be a list of group ids, such as [{group_ids!r}]")
    try:
        given = list(group_ids)
    except TypeError:
        raise ConfigurationError("group_ids", group_ids, "must be a list of group ids") from None
    for group_id in given:
        if not isinstance(group_id, str):
            raise ConfigurationError("group_ids", group_id, "every group id must be a string: put it in quotes")
    if not given and not allow_empty:
        raise ConfigurationError("group_ids", given, "must contain at least one group id")
    return list(dict.fromkeys(given))


def _compile(name: str, pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise ConfigurationError(name, pattern, "every pattern must be a string: put it in quotes")
    if not pattern or pattern == _REGEX:
        raise ConfigurationError(name, pattern, "remove the empty pattern; '*' matches every group")
    if not is_regex(pattern):
        if pattern != pattern.strip():
            raise ConfigurationError(
                name, pattern, "remove the whitespace around it; use 're:' to match ids that contain it"
            )
        return _compile_glob(pattern)
    try:
        return re.compile(pattern.removeprefix(_REGEX))
    except re.error as exc:
        raise ConfigurationError(name, pattern, f"correct the regular expression: {exc}") from None


@lru_cache(maxsize=1024)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    # Rules and owners that are given by "*" are about groups that a list visibly shows.
    return re.compile(f"(?!\\Z){translate(pattern)}")


def is_regex(pattern: str) -> bool:
    """Return whether a pattern is a regular expression, and no glob."""
    return pattern.startswith(_REGEX)


def glob_expression(glob: str) -> str:
    """Return a glob as a regular expression without its end, which versions of Python write in different ways."""
    return translate(glob).removesuffix(r"\Z").removesuffix(r"\z")


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _spellings(pattern: str) -> tuple[str, ...]:
    composed = _composed(pattern)
    return tuple(dict.fromkeys((composed, with_links(composed), *((EMPTY_ID,) if pattern == "*" else ()))))
