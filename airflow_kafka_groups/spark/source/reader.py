"""Parallel reads of groups: the driver lists them and splits them by coordinator, the tasks request their offsets.

Every doubt fails the read: a missing row would look like "no offsets". Accepted filters are ``=``, ``IN`` and ``LIKE
'prefix%'`` on the group's own strings and on ``topic``, so that only those groups are requested.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import attrgetter, methodcaller
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition, StringStartsWith

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, KafkaGroupsError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import GroupListing, GroupOffsets, OffsetSpec
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.observe.snapshot.collect import list_log_offsets
from airflow_kafka_groups.observe.snapshot.table import GroupRows, readable_part
from airflow_kafka_groups.spark.source.options import SourceOptions, batches
from airflow_kafka_groups.storage.arrow_values import as_column, column
from airflow_kafka_groups.storage.layout import utc_now

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
    """Split groups by coordinator, and those of each into the minimum number of parts of equal size.

    Coordinators take turns, so that concurrent tasks use different brokers.
    """
    order = pc.sort_indices(groups, sort_keys=[("coordinator", "ascending"), ("group_id", "ascending")])
    parts, first = [], 0
    for broker, size in sorted(Counter(groups["coordinator"].to_pylist()).items()):
        count = -(-size // at_most)
        places = [first + number * size // count for number in range(count + 1)]
        parts += [(turn, broker, order.slice(start, end - start)) for turn, (start, end) in enumerate(pairwise(places))]
        first += size
    return [groups.take(indices) for _, _, indices in sorted(parts, key=lambda part: part[:2])]


T = TypeVar("T")

_REMEDY = (
    "Every executor connects to the brokers by itself: check bootstrap.servers, the brokers' advertised listeners, "
    "firewalls and credentials as seen from that machine."
)


class SourceError(Exception):
    """The groups cannot be read; the message has the reason and the remedy."""


@dataclass(frozen=True)
class Chunk(InputPartition):
    """The groups that one task reads, as ``groups.select`` returns them; may be empty."""

    cluster_id: str | None
    groups: Any


class GroupsReader(DataSourceReader):
    """The reader of a batch."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.filters = PushedFilters()

    def partitions(self) -> Sequence[Chunk]:
        """List the groups and split them into chunks, on the driver.

        Raises ``SourceError`` if no broker answers, or a broker did not answer the listing.
        """
        cluster_id, groups = run(list_in_scope(self.options, self.filters), "driver")
        return [Chunk(cluster_id, part) for part in cut(groups, self.options.groups_per_partition) or [groups]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the groups of a chunk, on an executor, as Arrow batches."""
        if not isinstance(partition, Chunk) or not partition.groups:
            return iter(())
        _spare_what_is_imported()
        return run(fetch(self.options, self.filters, partition), "executor")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters; return those that Spark still has to apply."""
        return list(self.filters.take(filters))


@cache
def _spare_what_is_imported() -> None:
    """Exempt what is imported from garbage collection, which Spark runs after each task: it would take 0.1 s."""
    gc.collect()
    gc.freeze()


async def list_in_scope(options: SourceOptions, filters: PushedFilters) -> tuple[str | None, Any]:
    """Return the cluster's id and the groups in scope. Raises ``IncompleteListingError`` if a broker did not answer."""
    wanted = GroupFilter(include=options.include, exclude=options.exclude)
    async with AdminClient(options.client_config()) as admin:
        listings = (await admin.list_groups()).require_complete()
        cluster_id = await admin.cluster_id()
    return cluster_id, select(listings.values(), wanted, filters)


async def fetch(options: SourceOptions, filters: PushedFilters, chunk: Chunk) -> Iterator[Any]:
    """Request the offsets of a chunk's groups, and the log ends of their partitions; return Arrow batches.

    All responses have arrived when this returns: the consumer of the batches may be slow, and no broker waits for it.
    """
    rows, places = GroupRows(), array("i")

    def add(number: int, offsets: GroupOffsets | None, **failures: Any) -> None:
        places.append(number)
        rows.add(utc_now(), offsets, **failures)

    place = {group_id: number for number, group_id in enumerate(chunk.groups["group_id"].to_pylist())}
    async with AdminClient(options.client_config()) as admin:
        async with aclosing(admin.stream_consumer_group_offsets(list(place))) as results:
            async for result in results:
                offsets, failures = _answer(result, options, filters)
                if offsets is None or offsets.topics or not filters.has_topic:
                    add(place[result.group_id], offsets, **failures)
        if options.needs_log_ends:
            rows.log_ends = await asyncio.gather(
                list_log_offsets(admin, rows.partitions, OffsetSpec.earliest()),
                list_log_offsets(admin, rows.partitions, OffsetSpec.latest()),
            )
    added = chunk.groups.take(as_column(pa.int32(), places))
    groups = dict(zip(added.schema.names, added.columns, strict=True))
    groups["observed_at"] = as_column(pa.timestamp("us", tz="UTC"), rows.observed)
    return batches(rows, groups, chunk.cluster_id, options.columns)


def _answer(
    result: GroupResult[GroupOffsets], options: SourceOptions, filters: PushedFilters
) -> tuple[GroupOffsets | None, dict[str, Any]]:
    """Return the readable part of a group for the topics of the query.

    A failure that a filter would hide is an error.
    """
    error = result.error
    if error is None:
        offsets = result.unwrap()
        if filters.has_topic:
            of_query = tuple(topic for topic in offsets.topics if filters.holds(TOPIC, topic.topic))
            offsets = GroupOffsets(offsets.group_id, of_query)
        return offsets, {}
    if options.failures == "fail":
        reached = not isinstance(error, ConnectionFailedError | TimeoutError)
        raise SourceError(
            f"the executor on {socket.gethostname()} cannot read the committed offsets of group {result.group_id!r}: "
            f"{error}. {'' if reached else _REMEDY + ' '}Nothing was returned, since a missing row would read as 'no "
            "offsets'. Mend the cause, exclude the group, or read with option('failures', 'report') to see failures in "
            "the column error"
        )
    if filters.has_topic:
        raise SourceError(
            f"the committed offsets of group {result.group_id!r} cannot be read ({error}), and a filter on topic would "
            "hide its row: filter after the read (persist() it first), or exclude the group"
        )
    return readable_part(result)


def run(work: Coroutine[Any, Any, T], where: str, what: str = "groups") -> T:
    """Run a coroutine; errors name the machine, because each one has its own connections.

    :param where: ``driver`` or ``executor``.

    Raises ``SourceError``, or ``ConfigurationError`` for invalid options.
    """
    found: list[T] = []

    async def keep() -> None:  # returns nothing: on exit, asyncio.run formats the result of the main task
        found.append(await work)

    try:
        asyncio.run(keep())
        return found[0]
    except (SourceError, ConfigurationError):
        raise
    except KafkaGroupsError as error:
        raise SourceError(
            f"the {where} on {socket.gethostname()} cannot read the {what}: {error}. {_REMEDY}"
        ) from error
