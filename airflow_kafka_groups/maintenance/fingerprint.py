r"""The fingerprint of a group's committed offsets: while it is unchanged, no offset has moved.

SHA-256 over one line per committed partition, sorted by topic and partition: ``topic \t partition \t offset \t leader
epoch (-1 for none) \t metadata as a JSON string \n``. Metadata is included because a commit of the same offset with
other metadata is a sign of life.
"""

from __future__ import annotations

import hashlib
import json

from airflow_kafka_groups.models import GroupOffsets


def fingerprint(offsets: GroupOffsets) -> str:
    """Return the fingerprint. Partitions without a commit are ignored."""
    rows = sorted(
        (topic.topic, partition, offset, max(epoch, -1), metadata)
        for topic in offsets.topics
        for partition, offset, epoch, metadata in topic.rows()
        if offset >= 0
    )
    digest = hashlib.sha256()
    for topic_name, partition, offset, epoch, metadata in rows:
        line = f"{topic_name}\t{partition}\t{offset}\t{epoch}\t{json.dumps(metadata)}\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def committed_partitions(offsets: GroupOffsets) -> int:
    """Return the number of partitions with a committed offset."""
    return sum(1 for topic in offsets.topics for offset in topic.offsets if offset >= 0)
