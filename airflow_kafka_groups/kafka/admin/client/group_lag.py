"""The lag of groups: the ends of their logs, each asked for once, and what is left before them without a record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.handlers.fetch_tails import FetchTailsHandler
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogBounds, partitions_of
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetSpec

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient


async def group_lag(admin: AdminClient, results: GroupResults[GroupOffsets]) -> GroupResults[GroupLag]:
    """Return the lag of groups whose offsets were read."""
    partitions = partitions_of(results.succeeded.values())
    # Not before all commits are read: one that is newer than the end offset would look like one beyond it.
    starts, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest())),
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())),
    )
    bounds = LogBounds(starts, ends)
    await admin.end_readable(bounds, results.succeeded.values())
    return GroupResults(
        GroupResult(group_id, None if offsets is None else GroupLag(offsets, bounds), error)
        for group_id, offsets, error in results.values()
    )


async def end_readable(calls: Calls, bounds: LogBounds, groups: Iterable[GroupOffsets]) -> None:
    """Take in where the readable records end of what groups have nearly read."""
    wanted = bounds.nearly_read(groups)
    found = await calls.ask_leaders(wanted, FetchTailsHandler(wanted)) if wanted else ()
    bounds.end_readable(wanted, [tail for _, tail, _ in found if tail is not None])
