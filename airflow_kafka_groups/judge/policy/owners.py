"""Who owns a group: the policy's rule, else a mapping of patterns, else a rule over the name, else the last client.

The last client is known in plans by a policy with a rule that matches by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.regexes import compile_regex
from airflow_kafka_groups.observe.patterns import PatternSet, check_patterns, glob_expression, is_regex

if TYPE_CHECKING:
    import re2

PLACEHOLDER = "{owner}"


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
        if (first := self._mapping.first(group_id)) is not None:
            return self.mapping[first][1]
        named = self._naming.fullmatch(group_id.encode()) if self._naming is not None else None
        if named is not None:
            return str(named["owner"].decode())
        return client or None

    def contact_of(self, owner: str | None) -> str | None:
        """Return where to notify an owner, ``None`` if that is not known."""
        return self.contacts.get(owner or "", self.default_contact)

    @cached_property
    def _mapping(self) -> PatternSet:
        return PatternSet([pattern for pattern, _ in self.mapping])

    @cached_property
    def _naming(self) -> re2._Regexp | None:
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
        text = f"{glob_expression(before, star='.*?')}(?P<owner>(?s:{owner})){glob_expression(after)}"
        return compile_regex(text)


NO_OWNERS = OwnerRules()
