"""The filters of a query that the source accepts, so that only those groups are requested. Pure.

Accepted are ``=``, ``IN`` and ``LIKE 'prefix%'`` on string columns that are known before the offsets (the group's own),
or that select rows of a group (``topic``). All others remain with Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from pyspark.sql.datasource import EqualTo, Filter, In, StringStartsWith

GROUP_ID = "group_id"
KIND_COLUMNS = ("group_type", "protocol_type", "state")
TOPIC = "topic"

Condition = tuple[bool, Collection[str]]
"""Whether these are prefixes, and the strings: a tuple of prefixes, a set of values."""


@dataclass(slots=True)
class PushedFilters:
    """The accepted conditions; all conditions of a column must hold."""

    conditions: dict[str, list[Condition]] = field(default_factory=dict)

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Accept supported filters, and return the others."""
        for given in filters:
            column, condition = _read(given)
            if condition is None or column not in (GROUP_ID, *KIND_COLUMNS, TOPIC):
                yield given
            else:
                self.conditions.setdefault(column, []).append(condition)

    def holds(self, column: str, value: str) -> bool:
        """Return whether a value satisfies the conditions of its column."""
        conditions = self.conditions.get(column)
        return conditions is None or all(_holds(condition, value) for condition in conditions)

    @property
    def has_topic(self) -> bool:
        """Whether rows of a group are selected by topic."""
        return TOPIC in self.conditions


def _read(given: Filter) -> tuple[str, Condition | None]:
    if not isinstance(given, EqualTo | In | StringStartsWith) or len(given.attribute) != 1:
        return "", None
    values = given.value if isinstance(given, In) else (given.value,)
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) != len(values):
        return "", None
    prefixes = isinstance(given, StringStartsWith)
    return given.attribute[0], (prefixes, texts if prefixes else frozenset(texts))


def _holds(condition: Condition, value: str) -> bool:
    prefixes, texts = condition
    return value.startswith(tuple(texts)) if prefixes else value in texts
