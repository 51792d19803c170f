"""The brokers' clocks, compared with this machine's by the log of commits: Kafka has no request for its time.

Each snapshot asks where the partitions of the log end, and for the time of their newest record, which the partition's
leader has set. A record that was appended since the snapshot before is younger than that snapshot: where no record of
its partition is, the broker's clock is behind. A record that is newer than now says that it is ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import KafkaGroupsError, SnapshotError
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.observe.snapshot.reader import newest_manifest
from airflow_kafka_groups.storage.layout import Clock, Layout
from airflow_kafka_groups.storage.manifest import CLOCKS_MAY_DIFFER, BrokerClocks

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMarks:
    """The log of commits at one moment.

    :param at: before it was asked for; ``until`` is afterwards.
    :param ends: where its partitions end. What is appended from there on is younger than ``at``.
    :param newest: the time of their newest record, as their brokers have set it.
    """

    at: datetime
    until: datetime
    ends: Mapping[int, int]
    newest: Mapping[int, datetime]


ClockReader = Callable[[Clock], Awaitable[ClockMarks]]


async def read_marks(admin: AdminClient, now: Clock) -> ClockMarks:
    """Ask for the ends of the log of commits, then for its newest records.

    There are no marks where this user may not describe the log, nor of newest records before Kafka 3.0. Raises
    ``KafkaGroupsError`` where no broker answers.
    """
    at = now()
    count = (await admin.authorized_operations([OFFSETS_TOPIC])).partition_counts.get(OFFSETS_TOPIC, 0)
    found: list[dict[int, ListedOffset]] = []
    for spec in (OffsetSpec.latest(), OffsetSpec.max_timestamp()):
        specs = {TopicPartition(OFFSETS_TOPIC, number): spec for number in range(count)}
        answers = await admin.list_offsets(specs) if specs else {}
        found.append({where.partition: each for where, each in answers.items() if isinstance(each, ListedOffset)})
    ends, newest = found
    return ClockMarks(
        at=at,
        until=now(),
        ends={number: each.offset for number, each in ends.items()},
        newest={
            number: datetime.fromtimestamp(each.timestamp / 1000, at.tzinfo)
            for number, each in newest.items()
            if each.timestamp >= 0
        },
    )


def compared(marks: ClockMarks, before: BrokerClocks | None) -> BrokerClocks:
    """Compare the clocks.

    :param before: what was found before; ``None`` if nobody has looked: then only what is ahead is found.
    """
    differences, count = [0.0], 0
    for number, newest in marks.newest.items():
        differences.append(max((newest - marks.until).total_seconds(), 0.0))
        if before is not None and marks.ends.get(number, 0) > before.ends.get(str(number), marks.ends.get(number, 0)):
            count += 1
            differences.append(min((newest - before.at).total_seconds(), 0.0))
    largest = max(differences, key=abs)
    ends = {str(number): end for number, end in marks.ends.items()}
    found = BrokerClocks(at=marks.at, ends=ends, compared=count, seconds=round(abs(largest)))
    if abs(largest) > CLOCKS_MAY_DIFFER:
        found = replace(found, off_at=marks.until, off_seconds=found.seconds, off_ahead=largest > 0)
        if before is None or before.off_seconds <= found.off_seconds:
            return found
        # The larger one may count still, by idle times that are not known here.
        return replace(found, off_seconds=before.off_seconds, off_ahead=before.off_ahead)
    if before is None:
        return found
    return replace(found, off_at=before.off_at, off_seconds=before.off_seconds, off_ahead=before.off_ahead)


async def compare_with_the_last(clocks: ClockReader, layout: Layout, now: Clock) -> BrokerClocks | None:
    """Compare the clocks since the newest snapshot in the folder; ``None`` if no broker answers.

    No snapshot fails because of it: what was not compared is what it was before.
    """
    try:
        before = await asyncio.to_thread(newest_manifest, layout)
    except SnapshotError:  # who decides by it says so
        before = None
    known = None if before is None else before.clocks
    try:
        return compared(await clocks(now), known)
    except KafkaGroupsError:
        return known
