"""The groups of a listing as an Arrow batch, and the filters of a query that choose among them.

50,000 groups are sent to tasks, and one object each would take half a second.

Accepted filters are ``=``, ``IN`` and ``LIKE 'prefix%'`` on string columns that are known before the offsets (the
group's own), or that select rows of a group (``topic``), so that only those groups are requested. All others remain
with Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, In, StringStartsWith

from airflow_kafka_groups.admin.arrow_values import column
from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.models import GroupListing

GROUP_COLUMNS = ("group_id", "group_type", "protocol_type", "state")
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
            name, condition = _read(given)
            if condition is None or name not in (*GROUP_COLUMNS, TOPIC):
                yield given
            else:
                self.conditions.setdefault(name, []).append(condition)

    def chooses(self, group: GroupListing) -> bool:
        """Return whether a group satisfies the conditions of its own columns."""
        if not self.conditions:
            return True
        values = (group.group_id, group.type, group.protocol_type, group.state)
        return all(self.holds(name, value) for name, value in zip(GROUP_COLUMNS, values, strict=True))

    def holds(self, name: str, value: str) -> bool:
        """Return whether a value satisfies the conditions of its column."""
        conditions = self.conditions.get(name)
        return conditions is None or all(_holds(condition, value) for condition in conditions)

    @property
    def has_topic(self) -> bool:
        """Whether rows of a group are selected by topic."""
        return TOPIC in self.conditions


def select(listings: Iterable[GroupListing], wanted: GroupFilter, filters: PushedFilters) -> Any:
    """Return the groups in scope: a ``pyarrow.RecordBatch`` of ``GROUP_COLUMNS`` and ``coordinator``."""
    import pyarrow as pa

    chosen = [each for each in listings if wanted.selects(each.group_id) and filters.chooses(each)]
    columns: dict[str, list[str]] = {
        "group_id": [each.group_id for each in chosen],
        "group_type": [each.type for each in chosen],
        "protocol_type": [each.protocol_type for each in chosen],
        "state": [each.state for each in chosen],
    }
    made = {name: column(values, pa.string()) for name, values in columns.items()}
    return pa.record_batch({**made, "coordinator": column([each.coordinator for each in chosen], pa.int32())})


def cut(groups: Any, at_most: int) -> list[Any]:
    """Split groups by coordinator, and those of each into the minimum number of parts.

    The parts of a coordinator are of equal size, so that no task gets a small remainder. Coordinators take turns, so
    that concurrent tasks use different brokers.
    """
    import pyarrow.compute as pc

    order = pc.sort_indices(groups, sort_keys=[("coordinator", "ascending"), ("group_id", "ascending")])
    parts, first = [], 0
    for broker, size in sorted(Counter(groups["coordinator"].to_pylist()).items()):
        count = -(-size // at_most)
        places = [first + number * size // count for number in range(count + 1)]
        parts += [(turn, broker, order.slice(start, end - start)) for turn, (start, end) in enumerate(pairwise(places))]
        first += size
    return [groups.take(indices) for _, _, indices in sorted(parts, key=lambda part: part[:2])]


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
