"""The public API of the core: every call takes many groups, and answers for each.

Nothing is decided here. A call picks a handler and a lookup strategy, and the driver does the rest (driver.py). Method
names are those of confluent-kafka's AdminClient where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import overload

from airflow_kafka_groups.admin.client.arguments import (
    group_ids_of,
    one_or_many,
    partition_specs_of,
)
from airflow_kafka_groups.admin.client.changes import ChangingCalls
from airflow_kafka_groups.admin.engine import runner
from airflow_kafka_groups.admin.engine.driver import AdminDriver
from airflow_kafka_groups.admin.handlers.describe_groups import (
    DescribeClassicGroupsHandler,
    DescribeModernGroupsHandler,
)
from airflow_kafka_groups.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.admin.handlers.list_offsets import ListOffsetsHandler
from airflow_kafka_groups.admin.handlers.lookup import CoordinatorStrategy, PartitionLeaderStrategy
from airflow_kafka_groups.admin.lag import GroupLag, group_lag
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.exceptions import KafkaGroupsError, UnsupportedVersionError
from airflow_kafka_groups.models import (
    Broker,
    CoordinatorType,
    GroupDescription,
    GroupOffsets,
    GroupState,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.protocol.group_apis.describe_modern_groups import GROUP_TYPES

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]


class AdminClient(ChangingCalls):
    """Ask a Kafka cluster about its groups, many at a time. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.

    Entering raises ``NoBrokerAvailableError`` when no broker can be used, ``AuthenticationFailedError`` when it refuses
    the credentials. The calls raise only for bad arguments; what goes wrong with a group is in that group's result.
    """

    async def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType = CoordinatorType.GROUP
    ) -> GroupResults[Broker]:
        """Find the coordinator of each key (KIP-699).

        :param keys: group ids, transactional ids or share keys; duplicates are removed.
        :param key_type: what the keys are. Default: groups.

        Keys that fail are in ``.failed``; raises only for bad arguments.
        """
        wanted = group_ids_of(keys, "keys")
        lookup = CoordinatorStrategy(CoordinatorType(key_type))
        driver: AdminDriver[str, Broker] = self._driver(wanted, lookup=lookup, handler=None)
        return await self._gather(wanted, driver)

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        """Describe groups of every type, grouped by coordinator (KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param include_authorized_operations: also say what this user may do with each. Default false.

        Classic groups are asked for first, and what is not found there as consumer (KIP-848), share (KIP-932) and
        streams groups (KIP-1071), where the brokers know those. A group that does not exist is a success with the state
        ``DEAD``. Groups that fail are in ``.failed``.
        """
        wanted = group_ids_of(group_ids)
        results = await self._ask_coordinators(wanted, DescribeClassicGroupsHandler(include_authorized_operations))
        for api in GROUP_TYPES:
            not_found = [group_id for group_id, found in results.succeeded.items() if found.state is GroupState.DEAD]
            if not not_found:
                break
            modern = DescribeModernGroupsHandler(api, include_authorized_operations)
            answers = await self._ask_coordinators(not_found, modern)
            # A broker that does not know the API has no such groups: what was said before stands.
            said = {key: new for key, new in answers.items() if not isinstance(new.error, UnsupportedVersionError)}
            results = GroupResults.of({**results, **said})
        return results

    @overload  # a text is an iterable of texts too: the first signature that fits is the one meant
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

        Many: groups that fail are in ``.failed``. One: gives its offsets, or raises its error. A group that does not
        exist has no offsets and no error: existence is ListGroups' and DescribeGroups' to say.
        """
        if isinstance(groups, str):
            return (await self.list_consumer_group_offsets([groups], require_stable=require_stable))[groups].unwrap()
        wanted, specs = one_or_many(groups)
        return await self._ask_coordinators(wanted, ListGroupOffsetsHandler(specs, require_stable))

    async def stream_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = False, progress: runner.Progress | None = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        """List committed offsets, each group as its answer arrives, so that memory does not grow with their number.

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.
        :param require_stable: wait for open transactions that hold offsets back (KIP-447). Default false.
        :param progress: called with (groups done, groups in all). Default: nobody is told.

        Leaving the iterator early (``contextlib.aclosing``) cancels what is under way.
        """
        wanted, specs = one_or_many(groups)
        driver = self._group_driver(wanted, ListGroupOffsetsHandler(specs, require_stable))
        stream = runner.stream(driver, self._cluster, progress)
        async with aclosing(stream) as outcomes:
            async for group_id, offsets, error in outcomes:
                yield GroupResult(group_id, offsets, error)

    async def list_consumer_group_lag(self, groups: GroupSpecs) -> GroupResults[GroupLag]:
        """List how far groups are behind, partition by partition, each with a flag (see ``admin.lag``).

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.

        Each partition is asked for its ends once, however many groups read it. Groups whose offsets cannot be read are
        in ``.failed``; a partition whose ends cannot be read has the flag ``UNKNOWN``.
        """
        results = await self.list_consumer_group_offsets(groups)
        partitions = {partition for offsets in results.succeeded.values() for partition in offsets}
        starts, ends = await asyncio.gather(
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest())),
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())),
        )
        return GroupResults(
            GroupResult(group_id, None if result.value is None else group_lag(result.value, starts, ends), result.error)
            for group_id, result in results.items()
        )

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        """List log start, end or the offset at a time.

        :param specs: what is wanted of which partition.

        A partition that fails (a deleted topic, say) has its error as the value; raises only for bad arguments.
        """
        wanted = partition_specs_of(specs)
        driver: AdminDriver[TopicPartition, ListedOffset] = self._driver(
            wanted, lookup=PartitionLeaderStrategy(), handler=ListOffsetsHandler(wanted), batch_size=5000
        )
        results: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        for key, value, error in await runner.collect(driver, self._cluster):
            results[key] = error or value  # type: ignore[assignment]  # one of the two is there
        return {key: results[key] for key in wanted}
