"""Which of a query's filters the source takes over, so that only those groups are asked. Pure.

Taken are ``=``, ``IN`` and ``LIKE 'prefix%'`` on text columns that are known before the offsets are (the group's own),
or that pick rows out of a group (``topic``). Everything else stays with Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from pyspark.sql.datasource import EqualTo, Filter, In, StringStartsWith

GROUP_ID = "group_id"
KIND_COLUMNS = ("group_type", "protocol_type", "state")
TOPIC = "topic"

Condition = tuple[bool, Collection[str]]
"""Whether prefixes are meant, and the texts: a tuple of prefixes, a set of values."""


@dataclass(slots=True)
class PushedFilters:
    """Collect the conditions taken over; each column's conditions must all hold."""

    conditions: dict[str, list[Condition]] = field(default_factory=dict)

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Take what can be taken, and give the rest back.

        :param filters: those of the query; all must hold.
        """
        for given in filters:
            column, condition = _read(given)
            if condition is None or column not in (GROUP_ID, *KIND_COLUMNS, TOPIC):
                yield given
            else:
                self.conditions.setdefault(column, []).append(condition)

    def holds(self, column: str, value: str) -> bool:
        """Say whether a value passes the conditions on its column."""
        conditions = self.conditions.get(column)
        return conditions is None or all(_holds(condition, value) for condition in conditions)

    @property
    def has_topic(self) -> bool:
        """Say whether rows of a group are picked by topic."""
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
