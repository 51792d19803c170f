"""Read groups in parallel: the driver lists and cuts them into chunks by coordinator, the tasks ask for their offsets.

A chunk is one Spark partition: groups of one coordinator, so that a task's requests all go to one broker (and one more
for the ends of the logs). Its task connects by itself, and hands Arrow batches on. Each doubt fails the read: a listing
that is not complete, and a group that could not be read, unless the user wants to see failures as rows. A row that is
missing would read as "no offsets".
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.admin.results import GroupResult
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, PartitionOffsetsError
from airflow_kafka_groups.maintenance.columns import GroupFacts, OffsetColumns
from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.maintenance.snapshot import OTHER_PROGRAMS, list_log_offsets
from airflow_kafka_groups.models import GroupListing, GroupOffsets, GroupState, OffsetSpec
from airflow_kafka_groups.spark.source.filters import GROUP_COLUMNS, TOPIC, PushedFilters
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.rows import batches

T = TypeVar("T")


class SourceError(Exception):
    """Say why the groups cannot be read, and what to do about it."""


@dataclass(frozen=True)
class Chunk(InputPartition):
    """Be the groups that one task reads; none is a chunk without groups."""

    cluster_id: str | None
    groups: tuple[GroupFacts, ...]


class GroupsReader(DataSourceReader):
    """Read a batch.

    :param options: what the user asked for.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.filters = PushedFilters()

    def partitions(self) -> Sequence[Chunk]:
        """List the groups and cut them into chunks, on the driver.

        Raises ``SourceError`` when no broker answers, or one did not answer the listing.
        """
        return run(plan(self.options, self.filters), "driver")

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the groups of a chunk, on an executor, as Arrow batches."""
        if not isinstance(partition, Chunk) or not partition.groups:
            return iter(())
        columns = run(fetch(self.options, self.filters, partition.groups), "executor")
        return batches(columns, partition.cluster_id)


class FilteringReader(GroupsReader):
    """Read a batch, and take filters over."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take filters over; give those back that Spark still has to apply."""
        return list(self.filters.take(filters))


async def plan(options: SourceOptions, filters: PushedFilters) -> list[Chunk]:
    """List the groups in scope, and cut them into chunks.

    :param options: what the user asked for.
    :param filters: conditions of the query.
    """
    wanted = GroupFilter(include=options.include, exclude=options.exclude)
    async with AdminClient(options.client_config()) as admin:
        listings = (await admin.list_groups()).require_complete()
        cluster_id = await admin.cluster_id()
    of_broker: dict[int, list[GroupFacts]] = {}
    for listing in listings.values():
        facts = _facts(listing)
        if wanted.selects(facts.group_id) and all(filters.holds(name, getattr(facts, name)) for name in GROUP_COLUMNS):
            of_broker.setdefault(int(listing.coordinator), []).append(facts)
    chunks = [
        Chunk(cluster_id, chunk)
        for _, groups in sorted(of_broker.items())
        for chunk in _evenly(groups, options.groups_per_partition)
    ]
    return chunks or [Chunk(cluster_id, ())]


async def fetch(options: SourceOptions, filters: PushedFilters, groups: Sequence[GroupFacts]) -> OffsetColumns:
    """Ask for the offsets of these groups, and for the ends of the logs they name.

    :param options: what the user asked for.
    :param filters: conditions of the query; here those on the topic.
    :param groups: the groups of a chunk.
    """
    facts = {of_group.group_id: of_group for of_group in groups}
    columns = OffsetColumns()
    asked = [group_id for group_id, of_group in facts.items() if not _is_other_program(of_group)]
    for of_group in groups:
        if _is_other_program(of_group) and not filters.has_topic:
            columns.add(of_group, datetime.now(UTC), None)
    async with AdminClient(options.client_config()) as admin:
        async with aclosing(admin.stream_consumer_group_offsets(asked)) as results:
            async for result in results:
                _add(columns, facts[result.group_id], result, options, filters)
        if options.with_lag:
            partitions = columns.partitions()
            starts, ends = await asyncio.gather(
                list_log_offsets(admin, partitions, OffsetSpec.earliest()),
                list_log_offsets(admin, partitions, OffsetSpec.latest()),
            )
            columns.set_log_ends(starts, ends)
    return columns


def _add(
    columns: OffsetColumns,
    facts: GroupFacts,
    result: GroupResult[GroupOffsets],
    options: SourceOptions,
    filters: PushedFilters,
) -> None:
    error, now = result.error, datetime.now(UTC)
    if error is not None and options.failures == "fail":
        raise SourceError(
            f"the committed offsets of group {facts.group_id!r} cannot be read: {error}. Nothing was returned, since a "
            "missing row would read as 'no offsets'. Mend the cause, exclude the group, or read with "
            "option('failures', 'report') to see failures in the column error"
        )
    if error is not None and filters.has_topic:
        raise SourceError(
            f"the committed offsets of group {facts.group_id!r} cannot be read ({error}), and a filter on topic would "
            "hide its row: filter after the read (persist() it first), or exclude the group"
        )
    if isinstance(error, PartitionOffsetsError):
        errors = {key: str(reason) for key, reason in error.partition_errors.items()}
        columns.add(facts, now, error.partial, partition_errors=errors)
    elif error is not None:
        columns.add(facts, now, None, error=str(error) or type(error).__name__)
    else:
        offsets = _of_topics(result.unwrap(), filters)
        if offsets.topics or not filters.has_topic:
            columns.add(facts, now, offsets)


def _evenly(groups: list[GroupFacts], at_most: int) -> Iterator[tuple[GroupFacts, ...]]:
    """Cut into as few chunks as allowed, of the same size, so that no task is left with a rest."""
    ordered = sorted(groups, key=lambda facts: facts.group_id)
    count = -(-len(ordered) // at_most)
    for number in range(count):
        yield tuple(ordered[number * len(ordered) // count : (number + 1) * len(ordered) // count])


def _of_topics(offsets: GroupOffsets, filters: PushedFilters) -> GroupOffsets:
    if not filters.has_topic:
        return offsets
    return GroupOffsets(offsets.group_id, tuple(topic for topic in offsets.topics if filters.holds(TOPIC, topic.topic)))


def _facts(listing: GroupListing) -> GroupFacts:
    return GroupFacts(
        group_id=listing.group_id,
        group_type=listing.type.value,
        protocol_type=listing.protocol_type,
        state=listing.state.value,
        members=0 if listing.state is GroupState.EMPTY else None,
        coordinator=listing.coordinator,
    )


def _is_other_program(facts: GroupFacts) -> bool:
    return facts.group_type in OTHER_PROGRAMS or facts.protocol_type in OTHER_PROGRAMS


def run(work: Coroutine[Any, Any, T], where: str) -> T:
    """Run to the end; say on which machine it failed, since each connects by itself.

    :param work: what to run.
    :param where: ``driver`` or ``executor``.

    Raises ``SourceError``, or ``ConfigurationError`` for bad options.
    """
    try:
        return asyncio.run(work)
    except (SourceError, ConfigurationError):
        raise
    except KafkaGroupsError as error:
        raise SourceError(
            f"the {where} on {socket.gethostname()} cannot read the groups: {error}. Every executor connects to the "
            "brokers by itself: check bootstrap.servers, the brokers' advertised listeners, firewalls and credentials "
            "as seen from that machine"
        ) from error
