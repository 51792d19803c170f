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
from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.mirrors.translation import Mark, ordered

_SHORT, _INT, _OFFSETS = Struct(">h"), Struct(">i"), Struct(">qq")
Marks = dict[TopicPartition, list[Mark]]
Records = Iterable[tuple[bytes | None, bytes | None]]
"""Keys and values."""


def read_syncs(records: Records, topic: str) -> Marks:
    """Return the pairs of an offset-syncs topic, by the partition of the source, from its keys and values in order.

    Raises ``MaintenanceError`` for another topic's records.
    """
    found: defaultdict[TopicPartition, list[Mark]] = defaultdict(list)
    for (name,), partition, pair in _read(records, topic, "offset sync", names=1, version=0):
        found[TopicPartition(name, partition)].append(Mark(*pair))
    return {where: ordered(marks) for where, marks in found.items()}


def read_checkpoints(records: Records, topic: str) -> Marks:
    """Return the pairs of a checkpoints topic, by the partition of the mirror, of all groups together.

    Each is valid for all groups: what is known of one group's position is known of the offset. Raises
    ``MaintenanceError`` for another topic's records.
    """
    latest: dict[tuple[str, TopicPartition], Mark] = {}
    for (group_id, name), partition, pair in _read(records, topic, "checkpoint", names=2, version=_SHORT.size):
        latest[group_id, TopicPartition(name, partition)] = Mark(*pair, is_exact=False)
    found: defaultdict[TopicPartition, dict[int, Mark]] = defaultdict(dict)
    for (_, where), mark in latest.items():
        known = found[where].setdefault(mark.source, mark)
        if mark.target > known.target:
            found[where][mark.source] = mark
    return {where: [marks[source] for source in sorted(marks)] for where, marks in found.items()}


def _read(
    records: Records, topic: str, what: str, *, names: int, version: int
) -> Iterator[tuple[list[str], int, tuple[int, int]]]:
    """Yield the names and the partition in each key, and the offsets in its value.

    :param names: the number of strings in a key.
    :param version: the bytes of the version before them, and before the offsets.
    """
    for key, value in records:
        if key is None or value is None:
            continue
        try:
            found, at = list[str](), version
            for _ in range(names):
                (length,) = _SHORT.unpack_from(key, at)
                at += _SHORT.size + length
                found.append(key[at - length : at].decode())
            (partition,) = _INT.unpack(key[at:])
            source, target = _OFFSETS.unpack_from(value, version) if version else _OFFSETS.unpack(value)
        except (StructError, UnicodeDecodeError) as error:
            raise MaintenanceError(f"a record of {topic} is no {what} of MirrorMaker 2: {error}") from None
        yield found, partition, (source, target)
