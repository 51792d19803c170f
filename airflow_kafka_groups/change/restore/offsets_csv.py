"""Offsets as CSV, in the two forms that ``kafka-consumer-groups --export`` writes and ``--from-file`` reads.

Neither has a header: ``topic,partition,offset`` of the one group that is named, or ``group,topic,partition,offset``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.storage.paths import topic_remedy

Row = tuple[str, str, int, int]
"""A group, a topic, a partition and an offset."""
LARGEST = 256 << 20
"""Bytes of a file: three million offsets."""
_LONGEST = 2**31 - 1, 2**63 - 1  # partition, offset
_FORM = "is not of the form topic,partition,offset or group,topic,partition,offset, without a header"


def csv_rows(rows: Iterable[Row], *, with_group: bool) -> Iterable[Sequence[str | int]]:
    """Return the rows of a file, without the group where the reader is to name it."""
    return (row if with_group else row[1:] for row in rows)


def read_offsets_csv(
    field: str, path: str, content: bytes, group_ids: Sequence[str] | None
) -> dict[str, dict[TopicPartition, int]]:
    """Read such a file.

    :param field: the argument that names it, and ``path`` what it names, for messages.
    :param group_ids: only these groups; a file without groups is of exactly one, which is named. Default: all in it.

    Raises ``ConfigurationError`` that names the line.
    """
    only = group_ids[0] if group_ids is not None and len(group_ids) == 1 else None
    found: dict[str, dict[TopicPartition, int]] = {}
    try:
        rows = csv.reader(StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    except UnicodeDecodeError:
        raise ConfigurationError(field, path, "is no UTF-8 text") from None
    try:
        for row in filter(None, rows):
            group_id, where, offset = _parsed(row, only)
            if where in found.setdefault(group_id, {}):
                raise _WrongLineError(f"has an offset of {where.topic}[{where.partition}] a second time")
            found[group_id][where] = offset
    except (_WrongLineError, csv.Error) as error:
        why = error if isinstance(error, _WrongLineError) else _FORM
        raise ConfigurationError(field, path, f"line {rows.line_num} {why}") from None
    wanted = list(found) if group_ids is None else list(group_ids)
    if missing := [group_id for group_id in wanted if group_id not in found]:
        raise ConfigurationError(field, path, f"has no offset of group {missing[0]!r}")
    if not wanted:
        raise ConfigurationError(field, path, "has no offset")
    return {group_id: found[group_id] for group_id in wanted}


class _WrongLineError(Exception):
    pass


def _parsed(row: Sequence[str], only: str | None) -> tuple[str, TopicPartition, int]:
    """Return the group, the partition and the offset of a row."""
    if len(row) == 3 and only is None:
        raise _WrongLineError("has no group: name exactly one for topic,partition,offset")
    if len(row) not in (3, 4):
        raise _WrongLineError(_FORM)
    group_id, topic, *numbers = row if len(row) == 4 else (only or "", *row)
    limits = zip(numbers, _LONGEST, strict=True)
    if topic_remedy(topic) or not all(each.strip().isdecimal() and int(each) <= most for each, most in limits):
        raise _WrongLineError(_FORM)
    return group_id, TopicPartition(topic, int(numbers[0])), int(numbers[1])
