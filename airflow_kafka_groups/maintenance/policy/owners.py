"""Who owns a group: the policy's rule, else a mapping of patterns, else a rule over the name, else the last client.

The last client is known in plans by a policy with a rule that matches by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.maintenance.patterns import PatternSet, check_patterns, glob_expression, is_regex

PLACEHOLDER = "{owner}"
_Finder: TypeAlias = Callable[[str], str | None]


@dataclass(frozen=True, kw_only=True)
class OwnerRules:
    """The ways to find an owner without a rule of the policy. Raises ``ConfigurationError`` for an invalid one.

    :param mapping: patterns of group ids with their owner; the first that matches counts.
    :param naming: ids that contain their owner, such as ``{owner}.*``. Default: none do.
    :param contacts: where to notify an owner.
    :param default_contact: where to notify all others. Default: nowhere.
    """

    mapping: Sequence[tuple[str, str]] = ()
    naming: str | None = None
    contacts: Mapping[str, str] = field(default_factory=dict)
    default_contact: str | None = None

    def __post_init__(self) -> None:
        check_patterns("owners", [pattern for pattern, _ in self.mapping])
        if self.naming is not None:
            _ = self._naming

    def owner_of(self, group_id: str, client: str | None = None) -> str | None:
        """Return the owner of a group by the mapping, else by its name, else its last client; ``None`` for none.

        :param client: the client id that was last seen in the group; ``None`` if that is not known.
        """
        for find in self._mapping:
            if (owner := find(group_id)) is not None:
                return owner
        named = self._naming.fullmatch(group_id) if self._naming is not None else None
        if named is not None:
            return named["owner"]
        return client or None

    def contact_of(self, owner: str | None) -> str | None:
        """Return where to notify an owner, ``None`` if that is not known."""
        return self.contacts.get(owner or "", self.default_contact)

    @cached_property
    def _mapping(self) -> list[_Finder]:
        """The mapping in order. Globs that follow one another are one expression, whose group tells the owner."""
        found: list[_Finder] = []
        for are_regexes, items in groupby(self.mapping, key=lambda item: is_regex(item[0])):
            run = list(items)
            found += [_regex(*item) for item in run] if are_regexes else [_globs(run)]
        return found

    @cached_property
    def _naming(self) -> re.Pattern[str] | None:
        if self.naming is None:
            return None
        if is_regex(self.naming):
            remedy = "must be a glob such as '{owner}.*': for a regular expression, write owners or an owner_file"
            raise ConfigurationError("owner_from_id", self.naming, remedy)
        before, found, after = self.naming.partition(PLACEHOLDER)
        if not found or PLACEHOLDER in after:
            raise ConfigurationError("owner_from_id", self.naming, "must contain {owner} once, such as '{owner}.*'")
        check_patterns("owner_from_id", [self.naming.replace(PLACEHOLDER, "x")])
        # An owner ends where the next character of the pattern begins: data-platform of data-platform.app with {owner}.
        stop = after[:1]
        owner = f"[^{re.escape(stop)}]+" if stop and stop not in "*?[" else ".+?"
        first = re.sub(r"(?<!\\)\.\*(?!\?)", ".*?", glob_expression(before))
        return re.compile(f"{first}(?P<owner>{owner}){glob_expression(after)}", re.DOTALL)


NO_OWNERS = OwnerRules()


def _globs(run: Sequence[tuple[str, str]]) -> _Finder:
    """Return what finds the owner of the first glob that matches.

    Globs are looked up by what they begin with: thousands of owners in one expression would each be tried for each id.
    """
    by_beginning: dict[str, list[int]] = {}
    for number, (glob, _) in enumerate(run):
        by_beginning.setdefault(re.split(r"[*?\[]", glob, maxsplit=1)[0], []).append(number)
    some = {
        begin: re.compile("|".join(f"({translate(run[number][0])})" for number in numbers))
        for begin, numbers in by_beginning.items()
    }
    lengths = sorted({len(begin) for begin in some})

    def find(group_id: str) -> str | None:
        first: int | None = None
        for length in lengths if group_id else ():  # no glob matches the empty id
            begin = group_id[:length]
            if begin in some and (found := some[begin].match(group_id)) is not None and found.lastindex is not None:
                number = by_beginning[begin][found.lastindex - 1]
                first = number if first is None else min(first, number)
        return None if first is None else run[first][1]

    return find


def _regex(pattern: str, owner: str) -> _Finder:
    matches = PatternSet("owners", (pattern,)).match
    return lambda group_id: owner if matches(group_id) else None
