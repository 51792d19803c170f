"""The topics' logs as they are at a restore, compared with the backup's.

An offset is restored only into the log that it was committed for, and only where that log still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.restore.why_kept import Unread
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.observe.protocols import BackupAdmin, GroupAdmin

Ends = Mapping[TopicPartition, tuple[int, int] | str]
_NOT_KNOWN = "not known when the offsets were read"
_Columns = tuple[tuple[int, ...], tuple[int, ...]]


class CurrentLogs:
    """The logs as they are now.

    :param ends: (log start, log end) of each partition, or why they are not known.
    :param recreated: the topics that are not the backup's, with a message each.
    :param topic_ids: the ids that topics must still have when something is committed. Default: any.
    """

    def __init__(self, ends: Ends, recreated: Mapping[str, str], topic_ids: Mapping[str, str] | None = None) -> None:
        self.topic_ids = topic_ids or {}
        self._ends = ends
        self._recreated = recreated
        self._known: dict[tuple[str, tuple[int, ...]], _Columns | None] = {}

    def columns(self, topic: str, partitions: tuple[int, ...]) -> _Columns | None:
        """Return the log starts and the log ends of partitions, or ``None`` unless all of them are known.

        Thousands of groups have the same partitions, so each combination is looked up once.
        """
        key = topic, partitions
        if key not in self._known:
            self._known[key] = self._columns(topic, partitions)
        return self._known[key]

    def _columns(self, topic: str, partitions: tuple[int, ...]) -> _Columns | None:
        found = [self._ends.get(TopicPartition(topic, partition)) for partition in partitions]
        bounds = [each for each in found if isinstance(each, tuple)]
        if topic in self._recreated or not found or len(bounds) < len(found):
            return None
        return tuple(start for start, _ in bounds), tuple(end for _, end in bounds)

    def has_other_id(self, topic: str) -> bool:
        """Return whether a topic is not the backup's, by its id."""
        return topic in self._recreated

    def why_skipped(self, where: TopicPartition, offset: int, old_start: int, old_end: int) -> str | None:
        """Return why an offset cannot be restored, ``None`` if it can.

        :param old_start: the log start at the time of the backup, -1 if it is not known.
        :param old_end: the log end at that time, -1 if it is not known.
        """
        if where.topic in self._recreated:
            return self._recreated[where.topic]
        found = self._ends.get(where, Unread("the log start and end are unknown"))
        if isinstance(found, str):
            return found
        start, end = found
        if end < old_end or start < old_start:
            shown = [None if known < 0 else known for known in (old_start, old_end)]
            return f"the topic was recreated or truncated: its log is {start} to {end} and was {shown[0]} to {shown[1]}"
        if not start <= offset <= end:
            return f"offset {offset} is outside the log, {start} to {end}"
        return None


async def current_logs(admin: BackupAdmin, backup: Backup, partitions: Iterable[TopicPartition]) -> CurrentLogs:
    """Ask the brokers for the logs of partitions, and for the ids of the backup's topics."""
    wanted = list(partitions)
    ids = ids_of(backup, {where.topic for where in wanted})
    return CurrentLogs(await log_ends(admin, wanted), await recreated_topics(admin, ids), ids)


def ids_of(backup: Backup, topics: Iterable[str] = ()) -> dict[str, str]:
    """Return the ids that topics had at the time of a backup; none if it has no ids.

    :param topics: further topics of the backup. Default: none. Where others had an id, one without did not exist:
        brokers show a user no offsets of topics that this user may not describe.
    """
    return {**dict.fromkeys(sorted(topics), ""), **backup.topic_ids} if backup.topic_ids else {}


async def recreated_topics(admin: BackupAdmin, ids: Mapping[str, str]) -> dict[str, str]:
    """Return the topics that have another id by now, with a message each. Topics without an id are ignored.

    :param ids: the ids of the topics before.
    """
    here = await admin.topic_ids(ids) if ids else {}
    return {
        topic: f"the topic was recreated: its id is {here[topic]} and was {before or _NOT_KNOWN}"
        for topic, before in ids.items()
        if here.get(topic, before) != before
    }


async def log_ends(admin: GroupAdmin, partitions: Iterable[TopicPartition]) -> Ends:
    """Return (log start, log end) of each partition, or why they are unknown."""
    wanted = list(dict.fromkeys(partitions))
    if not wanted:
        return {}
    starts = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.earliest()))
    ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()))
    found: dict[TopicPartition, tuple[int, int] | str] = {}
    for where in wanted:
        start, end = starts.get(where), ends.get(where)
        if isinstance(start, ListedOffset) and isinstance(end, ListedOffset) and 0 <= start.offset <= end.offset:
            found[where] = (start.offset, end.offset)
        else:
            error = next((item for item in (start, end) if isinstance(item, KafkaGroupsError)), None)
            found[where] = left_out(f"the log start and end cannot be read: {error or 'no result'}", error)
    return found


def left_out(reason: str, error: object) -> str:
    """Return why a partition is left out: as ``Unread``, unless the brokers say that it does not exist."""
    gone = isinstance(error, BrokerError) and error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    return reason if gone else Unread(reason)
