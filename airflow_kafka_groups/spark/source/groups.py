"""The groups of a listing as an Arrow batch, and the filters of a query that choose among them.

50,000 groups are sent to tasks, and one object each would take half a second.

Accepted filters are ``=``, ``IN`` and ``LIKE 'prefix%'`` on string columns that are known before the offsets (the
group's own), or that select rows of a group (``topic``), so that only those groups are requested. All others remain
with Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter, methodcaller
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import EqualTo, Filter, In, StringStartsWith

from airflow_kafka_groups.kafka.models import GroupListing
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.arrow_values import column

TOPIC = "topic"
_GROUP_COLUMNS: dict[str, Callable[[GroupListing], str]] = {
    "group_id": attrgetter("group_id"),
    "group_type": attrgetter("type"),
    "protocol_type": attrgetter("protocol_type"),
    "state": attrgetter("state"),
}
_FILTERED = {(name,) for name in (*_GROUP_COLUMNS, TOPIC)}


@dataclass(slots=True)
class PushedFilters:
    """The accepted conditions on the values of columns; all conditions of a column must hold."""

    conditions: dict[str, list[Callable[[str], bool]]] = field(default_factory=dict)

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Accept supported filters, and return the others."""
        for given in filters:
            if isinstance(given, EqualTo | In | StringStartsWith) and given.attribute in _FILTERED:
                values = given.value if isinstance(given, In) else (given.value,)
                if all(isinstance(value, str) for value in values):
                    one_of = frozenset(values).__contains__
                    holds = methodcaller("startswith", *values) if isinstance(given, StringStartsWith) else one_of
                    self.conditions.setdefault(given.attribute[0], []).append(holds)
                    continue
            yield given

    def chooses(self, group: GroupListing) -> bool:
        """Return whether a group satisfies the conditions of its own columns."""
        return not self.conditions or all(self.holds(name, get(group)) for name, get in _GROUP_COLUMNS.items())

    def holds(self, name: str, value: str) -> bool:
        """Return whether a value satisfies the conditions of its column."""
        return all(condition(value) for condition in self.conditions.get(name, ()))

    @property
    def has_topic(self) -> bool:
        """Whether rows of a group are selected by topic."""
        return TOPIC in self.conditions


def select(listings: Collection[GroupListing], wanted: GroupFilter, filters: PushedFilters) -> Any:
    """Return the groups in scope: a ``pyarrow.RecordBatch`` of their own columns and ``coordinator``."""
    refused = wanted.refused([each.group_id for each in listings])
    chosen = [each for each in listings if each.group_id not in refused and filters.chooses(each)]
    made = {name: column([*map(get, chosen)], pa.string()) for name, get in _GROUP_COLUMNS.items()}
    return pa.record_batch({**made, "coordinator": column([*map(attrgetter("coordinator"), chosen)], pa.int32())})


def cut(groups: Any, at_most: int) -> list[Any]:
    """Split groups by coordinator, and those of each into the minimum number of parts.

    The parts of a coordinator are of equal size, so that no task gets a small remainder. Coordinators take turns, so
    that concurrent tasks use different brokers.
    """
    order = pc.sort_indices(groups, sort_keys=[("coordinator", "ascending"), ("group_id", "ascending")])
    parts, first = [], 0
    for broker, size in sorted(Counter(groups["coordinator"].to_pylist()).items()):
        count = -(-size // at_most)
        places = [first + number * size // count for number in range(count + 1)]
        parts += [(turn, broker, order.slice(start, end - start)) for turn, (start, end) in enumerate(pairwise(places))]
        first += size
    return [groups.take(indices) for _, _, indices in sorted(parts, key=lambda part: part[:2])]
