"""Write OffsetFetch v8-v9 requests for all topics of many groups: by hand, as their answers are read.

Such a group is its id and constants, so that a request is the ids between constants. Requests that name partitions go
through kio like all others. A test holds what is written here against kio's writing of the same request.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.protocol.texts_writer import NO_TAGS, texts

_ALL_TOPICS = b"\x00"  # a null array
_NO_MEMBER = b"\x00\xff\xff\xff\xff"  # null member id, member epoch -1; since v9
_FIRST_MEMBER_VERSION = 9


def write(group_ids: Iterable[str], require_stable: bool, version: int) -> bytes:
    """Write the body of a request for all offsets of the groups."""
    member = _NO_MEMBER if version >= _FIRST_MEMBER_VERSION else b""
    groups = texts(group_ids, member + _ALL_TOPICS + NO_TAGS)
    return groups + (b"\x01" if require_stable else b"\x00") + NO_TAGS
