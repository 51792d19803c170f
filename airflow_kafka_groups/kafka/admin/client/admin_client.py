"""The public API of the core: every call takes many groups, and returns a result for each.

A call checks its arguments and picks a handler. Methods are named as confluent-kafka's AdminClient names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Self, cast, overload

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of, many, one_or_many, partition_specs_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls, ChangePolicy
from airflow_kafka_groups.kafka.admin.client.changes import Changes
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_offsets import FetchTailsHandler, ListOffsetsHandler
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogBounds, partitions_of
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.models import (
    Broker,
    CoordinatorType,
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.transport.connection import Connector

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]


class AdminClient(Changes):
    """A client for the groups of a Kafka cluster, many at a time. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    :param policy: which groups may not be changed. Default: all may.

    Entering raises ``NoBrokerAvailableError`` when no broker can be used, ``AuthenticationFailedError`` when it refuses
    the credentials. The calls raise only for bad arguments; what goes wrong with a group is in that group's result.
    """

    def __init__(
        self, config: ClientConfig, connect: Connector | None = None, policy: ChangePolicy | None = None
    ) -> None:
        self._calls = Calls(config, connect, policy)

    async def __aenter__(self) -> Self:
        await self._calls.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.cluster.aclose()

    async def cluster_id(self) -> str | None:
        """Return the cluster's id; ``None`` where the brokers have none, or none yet (Redpanda while it starts)."""
        return known_id(self._calls.cluster.metadata.cluster_id)

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the live brokers, as one of them reports them; none is connected to for that."""
        return tuple((await self._calls.cluster.fresh_metadata()).brokers.values())

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        """List log start, end or the offset at a time.

        :param specs: what is wanted of which partition.

        A partition that fails (a deleted topic, say) has its error as the value; raises only for bad arguments.
        """
        wanted = partition_specs_of(specs)
        found = await self._calls.ask_leaders(wanted, ListOffsetsHandler(wanted))
        results = {key: cast("ListedOffset | KafkaGroupsError", error or value) for key, value, error in found}
        return {key: results[key] for key in wanted}

    async def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType = CoordinatorType.GROUP
    ) -> GroupResults[Broker]:
        """Find the coordinator of each key (KIP-699).

        :param keys: group ids, transactional ids or share keys; duplicates are removed.
        :param key_type: what the keys are. Default: groups.

        Keys that fail are in ``.failed``; raises only for bad arguments.
        """
        return await self._calls.find_coordinators(group_ids_of(keys, "keys"), key_type)

    @overload  # a string is an iterable of strings too: the first signature that fits is the one meant
    async def list_consumer_group_offsets(  # type: ignore[overload-overlap]
        self, groups: str, *, require_stable: bool = ...
    ) -> GroupOffsets: ...

    @overload
    async def list_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = ...
    ) -> GroupResults[GroupOffsets]: ...

    async def list_consumer_group_offsets(
        self, groups: str | GroupSpecs, *, require_stable: bool = False
    ) -> GroupOffsets | GroupResults[GroupOffsets]:
        """List committed offsets (KIP-709).

        :param groups: one group id, many, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.
        :param require_stable: wait for open transactions that hold offsets back (KIP-447). Default false.

        Many: groups that fail are in ``.failed``. One: returns its offsets, or raises its error. A group that does not
        exist has no offsets and no error: use ListGroups and DescribeGroups for existence. Of a share group (KIP-932),
        it is the start offset of each partition, as ``ShareGroupOffsets``.
        """
        if isinstance(groups, str):
            return (await self.list_consumer_group_offsets([groups], require_stable=require_stable))[groups].unwrap()
        wanted, handler = self._offsets_handler(groups, require_stable)
        found = await self._calls.ask_coordinators(wanted, handler)
        of_share_groups = await self._calls.share_offsets(found.values(), handler.specs)
        return GroupResults.of(dict(found) | of_share_groups) if of_share_groups else found

    async def stream_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = False
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        """List committed offsets, each group as its answer arrives, so that memory does not grow with their number.

        :param groups: as ``require_stable``, see ``list_consumer_group_offsets``.

        Leaving the iterator early (``contextlib.aclosing``) cancels what is under way.
        """
        wanted, handler = self._offsets_handler(groups, require_stable)
        stream = self._calls.stream_coordinators(wanted, handler)
        async with aclosing(stream) as batches:
            empty: list[GroupResult[GroupOffsets]] = []
            async for batch in batches:
                for group_id, offsets, error in batch:
                    result = GroupResult(group_id, offsets, error)
                    if offsets is None or not offsets.is_empty:
                        yield result
                    else:
                        empty.append(result)
            of_share_groups = await self._calls.share_offsets(empty, handler.specs)
            for result in empty:
                yield of_share_groups.get(result.group_id, result)

    def _offsets_handler(self, groups: GroupSpecs, require_stable: bool) -> tuple[list[str], ListGroupOffsetsHandler]:
        wanted, specs = one_or_many(groups)
        batch_size = self._calls.batch_size(len(wanted))
        return wanted, ListGroupOffsetsHandler(specs, require_stable, batch_size)

    async def list_consumer_group_lag(self, groups: GroupSpecs) -> GroupResults[GroupLag]:
        """List how far groups are behind, partition by partition, each with a flag (see ``admin.lag``).

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.

        Each partition is asked for its ends once, however many groups read it. Groups whose offsets cannot be read are
        in ``.failed``; a partition whose ends cannot be read has the flag ``UNKNOWN``.
        """
        results = await self.list_consumer_group_offsets(many(groups, "groups"))
        partitions = partitions_of(results.succeeded.values())
        # Not before all commits are read: one that is newer than the end offset would look like one beyond it.
        starts, ends = await asyncio.gather(
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest())),
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())),
        )
        bounds = LogBounds(starts, ends)
        await self.end_readable(bounds, results.succeeded.values())
        return GroupResults(
            GroupResult(group_id, None if offsets is None else GroupLag(offsets, bounds), error)
            for group_id, offsets, error in results.values()
        )

    async def end_readable(self, bounds: LogBounds, groups: Iterable[GroupOffsets]) -> None:
        """Look whether what groups have left of a log holds records: the markers of transactions are none.

        Only where at most 1,000 offsets are left, of 1,000 partitions at most. Without the right to read the topic, and
        on brokers before Kafka 2.7, all that is left counts as lag.
        """
        wanted = bounds.nearly_read(groups)
        found = await self._calls.ask_leaders(wanted, FetchTailsHandler(wanted)) if wanted else ()
        bounds.end_readable(wanted, {where: tail for where, tail, _ in found if tail is not None})
