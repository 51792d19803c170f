"""Write OffsetFetch v6-v9 requests for all topics of groups: by hand, as their answers are read.

Such a group is its id and constants, so that a request is the ids between constants. Requests that name partitions go
through kio like all others. A test holds what is written here against kio's writing of the same request.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, text, texts

FIRST_VERSION_WRITTEN_BY_HAND = 6
"""The first one in the compact encoding."""

_ALL_TOPICS = b"\x00"  # a null array
_NO_MEMBER = b"\x00\xff\xff\xff\xff"  # null member id, member epoch -1; since v9
_FIRST_MEMBER_VERSION = 9
_FIRST_STABLE_VERSION = 7


def write_many(group_ids: Iterable[str], require_stable: bool, version: int) -> bytes:
    """Write the body of a request for all offsets of the groups (v8-v9)."""
    member = _NO_MEMBER if version >= _FIRST_MEMBER_VERSION else b""
    groups = texts(group_ids, member + _ALL_TOPICS + NO_TAGS)
    return groups + _flag(require_stable) + NO_TAGS


def write_one(group_ids: Iterable[str], require_stable: bool, version: int) -> bytes:
    """Write the body of a request for all offsets of the one group there is (v6-v7)."""
    (group_id,) = group_ids
    stable = _flag(require_stable) if version >= _FIRST_STABLE_VERSION else b""
    return text(group_id) + _ALL_TOPICS + stable + NO_TAGS


def _flag(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"
