"""The log offsets that lag is measured against: start, end, and the first recent record.

ListOffsets by timestamp gives lag in seconds without reading a record: it returns the first offset whose record is at
or after a time. If that offset is at or below the committed one, no unread record is older. Timestamps are the records'
own, as written by producers (or by brokers with ``LogAppendTime``), and compared with this machine's clock, so clock
skew matters. If timestamps do not increase with offsets, an older record that follows a recent one is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_groups.kafka.admin.lag import LogBounds, partitions_of
from airflow_kafka_groups.kafka.models import GroupOffsets, ListedOffset, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPositions:
    """The offsets of the logs that some groups read.

    :param bounds: start and end of each log.
    :param recent: for each partition, the first offset at or after the requested time; empty if none was requested.
    """

    bounds: LogBounds
    recent: LogOffsets

    def too_old(self, offsets: GroupOffsets, lag: GroupLag, seconds: float | None) -> str | None:
        """Return which partition has an unread record older than ``seconds``, ``None`` if none has.

        An unknown age counts as too old.
        """
        for where, value in offsets.items() if seconds is not None else ():
            of_partition = lag.partitions[where]
            if value is None or of_partition.messages == 0:
                continue  # has read everything
            recent = self.recent.get(where)
            if not isinstance(recent, ListedOffset):
                return f"{where.topic}[{where.partition}]: the timestamps of its records cannot be read"
            if not 0 <= recent.offset <= value.offset:
                return f"{where.topic}[{where.partition}]: the next unread record is more than {seconds:g} s old"
        return None


async def read_log_positions(
    admin: AdminClient, groups: Iterable[GroupOffsets], recent_since: float | None
) -> LogPositions:
    """List the offsets of every partition with a commit, once for all groups that read it.

    :param recent_since: also list the first record at or after this time, in seconds since 1970.
    """
    wanted = partitions_of(groups)

    async def ask(spec: OffsetSpec) -> LogOffsets:
        none: Mapping[TopicPartition, ListedOffset] = {}
        return await admin.list_offsets(dict.fromkeys(wanted, spec)) if wanted else none

    asked = [OffsetSpec.earliest(), OffsetSpec.latest()]
    if recent_since is not None:
        asked.append(OffsetSpec.for_timestamp(max(int(recent_since * 1000), 0)))
    starts, ends, *recent = await asyncio.gather(*map(ask, asked))
    return LogPositions(bounds=LogBounds(starts, ends), recent=recent[0] if recent else {})
