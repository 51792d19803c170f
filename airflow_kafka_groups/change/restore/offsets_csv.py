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
_LARGEST_PARTITION, _LARGEST_OFFSET = 2**31 - 1, 2**63 - 1
_FORM = "group,topic,partition,offset, or topic,partition,offset of one named group, each once and without a header"


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
    only = group_ids[0] if group_ids is not None and len(group_ids) == 1 else ""
    found: dict[str, dict[TopicPartition, int]] = {}
    rows = csv.reader(StringIO(content.decode("utf-8-sig", errors="replace"), newline=""), strict=True)
    try:
        for row in filter(None, rows):
            group_id, topic, *numbers = row if len(row) == 4 else (only, *row)
            partition, offset = map(int, filter(str.isdecimal, map(str.strip, numbers)))
            offsets, where = found.setdefault(group_id, {}), TopicPartition(topic, partition)
            is_too_large = partition > _LARGEST_PARTITION or offset > _LARGEST_OFFSET
            if not group_id or topic_remedy(topic) or where in offsets or is_too_large:
                raise ValueError(row)
            offsets[where] = offset
    except (ValueError, csv.Error):
        raise ConfigurationError(field, path, f"line {rows.line_num} is not of the form {_FORM}") from None
    wanted = list(found) if group_ids is None else list(group_ids)
    if missing := [group_id for group_id in wanted if group_id not in found]:
        raise ConfigurationError(field, path, f"has no offset of group {missing[0]!r}")
    if not wanted:
        raise ConfigurationError(field, path, "has no offset")
    return {group_id: found[group_id] for group_id in wanted}
