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
    found: dict[str, dict[TopicPartition, int]] = {}
    only = group_ids[0] if group_ids is not None and len(group_ids) == 1 else None
    try:
        text = content.decode("utf-8-sig")
        rows = csv.reader(StringIO(text, newline=""), strict=True)
        for row in rows:
            if not row:
                continue
            if len(row) == 3 and only is None:
                remedy = f"line {rows.line_num} has no group: name exactly one for topic,partition,offset"
                raise ConfigurationError(field, path, remedy)
            group_id, topic, partition, offset = row if len(row) == 4 else (only or "", *row)
            where, most = (partition, offset), _LONGEST
            if topic_remedy(topic) or not all(
                each.strip().isdecimal() and int(each) <= top for each, top in zip(where, most, strict=True)
            ):
                raise ValueError
            of_group = found.setdefault(group_id, {})
            if (place := TopicPartition(topic, int(partition))) in of_group:
                remedy = f"line {rows.line_num} has an offset of {topic}[{place.partition}] a second time"
                raise ConfigurationError(field, path, remedy)
            of_group[place] = int(offset)
    except UnicodeDecodeError:
        raise ConfigurationError(field, path, "is no UTF-8 text") from None
    except ConfigurationError:  # it is a ``ValueError``, too
        raise
    except (ValueError, csv.Error):
        remedy = "is not of the form topic,partition,offset or group,topic,partition,offset, without a header"
        raise ConfigurationError(field, path, f"line {rows.line_num} {remedy}") from None
    wanted = list(found) if group_ids is None else list(group_ids)
    if missing := [group_id for group_id in wanted if group_id not in found]:
        raise ConfigurationError(field, path, f"has no offset of group {missing[0]!r}")
    if not wanted:
        raise ConfigurationError(field, path, "has no offset")
    return {group_id: found[group_id] for group_id in wanted}
