"""The records of MirrorMaker 2's own topics: offset syncs and checkpoints.

===========  =====================================================  ==================================================
topic        key                                                    value
===========  =====================================================  ==================================================
offset sync  topic string16 | partition int32                       upstream int64 | downstream int64
checkpoint   version int16 | group, topic string16 | partition i32  version int16 | upstream, downstream int64 | …
===========  =====================================================  ==================================================

An offset sync names the source's topic, a checkpoint the mirror's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.mirrors.translation import Mark, ordered

_SHORT, _INT, _OFFSETS = Struct(">h"), Struct(">i"), Struct(">qq")
Marks = dict[TopicPartition, list[Mark]]


def read_syncs(records: Iterable[tuple[bytes | None, bytes | None]], topic: str) -> Marks:
    """Return the pairs of an offset-syncs topic, by the partition of the source, from its keys and values in order.

    Raises ``MaintenanceError`` for another topic's records.
    """
    found: defaultdict[TopicPartition, list[Mark]] = defaultdict(list)
    for key, value in _valued(records):
        try:
            name, at = _string(key, 0)
            where = TopicPartition(name, *_INT.unpack(key[at:]))
            found[where].append(Mark(*_OFFSETS.unpack(value)))
        except (StructError, UnicodeDecodeError) as error:
            raise MaintenanceError(f"a record of {topic} is no offset sync of MirrorMaker 2: {error}") from None
    return {where: ordered(marks) for where, marks in found.items()}


def read_checkpoints(records: Iterable[tuple[bytes | None, bytes | None]], topic: str) -> Marks:
    """Return the pairs of a checkpoints topic, by the partition of the mirror, of all groups together.

    Each is valid for all groups: what is known of one group's position is known of the offset. Raises
    ``MaintenanceError`` for another topic's records.
    """
    latest: dict[tuple[str, TopicPartition], Mark] = {}
    for key, value in _valued(records):
        try:
            group_id, at = _string(key, _SHORT.size)
            name, at = _string(key, at)
            where = TopicPartition(name, *_INT.unpack(key[at:]))
            source, target = _OFFSETS.unpack_from(value, _SHORT.size)
        except (StructError, UnicodeDecodeError) as error:
            raise MaintenanceError(f"a record of {topic} is no checkpoint of MirrorMaker 2: {error}") from None
        latest[group_id, where] = Mark(source, target, is_exact=False)
    found: defaultdict[TopicPartition, dict[int, Mark]] = defaultdict(dict)
    for (_, where), mark in latest.items():
        known = found[where].setdefault(mark.source, mark)
        if mark.target > known.target:
            found[where][mark.source] = mark
    return {where: [marks[source] for source in sorted(marks)] for where, marks in found.items()}


def _valued(records: Iterable[tuple[bytes | None, bytes | None]]) -> Iterable[tuple[bytes, bytes]]:
    return ((key, value) for key, value in records if key is not None and value is not None)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(data, at)
    end = at + _SHORT.size + length
    return data[at + _SHORT.size : end].decode(), end
