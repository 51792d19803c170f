"""What lag is measured against: where each log starts and ends, and where its young records begin.

Lag in seconds without reading a record: a broker tells the first offset whose record is at or after a time (ListOffsets
by timestamp). Is that offset at or before the committed one, then no record that is left to read is older: the group is
at most so many seconds behind. The times are the records' own, as producers (or brokers, ``LogAppendTime``) wrote them,
and now is this machine's: clocks that differ count. Where times do not rise with offsets, an older record may follow a
young one; it is not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_groups.models import GroupOffsets, ListedOffset, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.admin.lag import GroupLag, LogOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Be the logs that some groups read.

    :param young: the first offset at or after the time that was asked for, of each partition; empty if none was.
    """

    starts: LogOffsets
    ends: LogOffsets
    young: LogOffsets

    def late(self, offsets: GroupOffsets, lag: GroupLag, seconds: float | None) -> str | None:
        """Say which partition has a record left to read that is older than ``seconds``, ``None`` when none has.

        Doubt is a reason, too.
        """
        for where, value in offsets.items() if seconds is not None else ():
            of_partition = lag.partitions[where]
            if value is None or (of_partition.messages == 0 and not of_partition.lost):
                continue  # has read everything
            young = self.young.get(where)
            if not isinstance(young, ListedOffset):
                return f"{where.topic}[{where.partition}]: the times of its records cannot be read"
            if not 0 <= young.offset <= value.offset:
                return f"{where.topic}[{where.partition}]: the next record to read is more than {seconds:g} s old"
        return None


async def read_logs(admin: AdminClient, groups: Iterable[GroupOffsets], young_since: float | None) -> Logs:
    """Ask for the ends of every partition that has a commit, once however many groups read it.

    :param young_since: also ask for the first record at or after this time, in seconds since 1970.
    """
    wanted = {where for offsets in groups for where, value in offsets.items() if value is not None}

    async def ask(spec: OffsetSpec) -> LogOffsets:
        nothing: Mapping[TopicPartition, ListedOffset] = {}
        return await admin.list_offsets(dict.fromkeys(wanted, spec)) if wanted else nothing

    asked = [OffsetSpec.earliest(), OffsetSpec.latest()]
    if young_since is not None:
        asked.append(OffsetSpec.for_timestamp(max(int(young_since * 1000), 0)))
    starts, ends, *young = await asyncio.gather(*map(ask, asked))
    return Logs(starts=starts, ends=ends, young=young[0] if young else {})
