"""OffsetFetch: the committed offsets of groups.

v7 require_stable · v8 many groups (KIP-709) · v9 KIP-848 member ids · v10 topic ids (not used: see ``api_versions``)

kio makes an object of every partition, 200,000 of them for 10,000 groups. So all-topics requests and all responses are
coded here, and partitions are checked as bytes: a row without metadata and tagged fields has 20 of them::

    partition int32 | offset int64 | leader epoch int32 | metadata 0x01 (empty) | error int16 | tags 0x00

The first row is where it should be. If it has the two marks and no error, so is the next, and so on: the check of the
marks is a proof. A group that has only such rows is kept as bytes; a topic with any other row is read row by row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from kio.serial.readers import (
    read_compact_string,
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_timedelta_i32,
)

from airflow_kafka_groups.exceptions import NoBatchedOffsetFetchError, RemoteProtocolError
from airflow_kafka_groups.kafka.models import ListConsumerGroupOffsetsSpec, Row, TopicOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_ERRORS, GroupOffsetsAnswer, OffsetFetchAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    boolean,
    by_topic,
    read_error_code,
    request_schema,
    string,
    strings,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

FIRST_BATCHED_VERSION = 8
_FIRST_MEMBER_VERSION = 9

_ALL_TOPICS = b"\x00"  # a null array
_NO_MEMBER = b"\x00\xff\xff\xff\xff"  # null member id, member epoch -1

_ROW_SIZE = 20
_FIXED = struct.Struct(">iqi")
_NONE = ErrorCode.none
_ONE_TOPIC = 2  # the length of a compact array is written plus 1
_NO_ERROR_NO_TAGS = b"\x00\x00\x00"
_NO_TAGS_NO_ERROR_NO_TAGS = b"\x00" + _NO_ERROR_NO_TAGS

ALL_PARTITIONS = ListConsumerGroupOffsetsSpec()

_Unpack = Callable[..., tuple[int, ...]]


def encode(group_ids: Iterable[str], require_stable: bool, version: int) -> bytes:
    """Write the body of a request for all offsets of some groups; of exactly one below v8."""
    if version >= FIRST_BATCHED_VERSION:
        member = _NO_MEMBER if version >= _FIRST_MEMBER_VERSION else b""
        return strings(group_ids, member + _ALL_TOPICS + NO_TAGS) + boolean(require_stable) + NO_TAGS
    (group_id,) = group_ids
    return string(group_id) + _ALL_TOPICS + boolean(require_stable) + NO_TAGS


def decode(frame: bytes, version: int) -> OffsetFetchAnswer:
    """Decode a response frame. The response to a request for one group (v7) does not name it: its id is empty.

    Raises ``RemoteProtocolError`` for an answer that names a group twice: its offsets would be whichever came last.
    """
    reader = _OffsetsReader(frame)
    answer = OffsetFetchAnswer(reader.read(read_timedelta_i32), {}, [])
    if version >= FIRST_BATCHED_VERSION:
        left = count = reader.array_length()
        while left := left - reader.plain_groups(left, answer.packed):
            answer.groups.append(reader.group())
            left -= 1
        others = {group.group_id for group in answer.groups}
        if len(others | answer.packed.keys() if others else answer.packed) < count:
            raise RemoteProtocolError("an OffsetFetch response names a group twice")
    elif end := reader.end_of_plain(reader.position):
        answer.packed[""] = frame[reader.position : end]
        reader.position = end
    else:
        answer.groups.append(reader.body(""))
    reader.end(after_tags=version >= FIRST_BATCHED_VERSION)
    return answer


@lru_cache(1000)
def _marks(count: int) -> tuple[_Unpack, tuple[int, ...]]:
    """Return what unpacks the last four bytes of so many rows, each as one number, and what plain rows have there."""
    return struct.Struct("<" + "16xI" * count).unpack_from, (1,) * count


def _are_plain(rows: bytes, count: int) -> bool:
    unpack, plain = _marks(count)
    return unpack(rows) == plain


class _OffsetsReader(CompactReader):
    """A cursor over a frame of offsets."""

    __slots__ = ("_names",)

    def __init__(self, frame: bytes) -> None:
        super().__init__(frame)
        self._names: dict[bytes, str] = {}

    def plain_groups(self, most: int, packed: dict[str, bytes]) -> int:
        """Read groups as most are, up to the first that is another: short lists, plain rows, no error, no tags.

        Return how many there were. This is ``group`` without a call for each field: the calls would be most of the
        time. What begins a group of one topic is looked up among what others began with, as topics come again.

        :param most: read no more than this.
        """
        data, position = self.data, self.position
        shapes: dict[bytes, tuple[int, int, _Unpack, tuple[int, ...]]] = {}
        read = 0
        while read < most:
            size = data[position]
            if not 0 < size < 0x80:
                break
            start = position + size
            head = data[start : start + 2 + data[start + 1]]
            if shape := shapes.get(head):
                before, after, unpack, plain = shape
                end = start + after
                if unpack(data, start + before) != plain or data[end - 4 : end] != _NO_TAGS_NO_ERROR_NO_TAGS:
                    break
            else:
                end = self.end_of_plain(start)
                if not end:
                    break
                if data[start] == _ONE_TOPIC:
                    shapes[head] = len(head), end - start, *_marks(head[-1] - 1)
            packed[data[position + 1 : start].decode()] = data[start:end]
            position = end
            read += 1
        self.position = position
        return read

    def end_of_plain(self, position: int) -> int:
        """Return where such a group ends, or 0 for any other."""
        data = self.data
        many = data[position]
        if not 0 < many < 0x80:
            return 0
        position += 1
        for _ in range(many - 1):
            size = data[position]
            rows = position + size + 1
            count = data[rows - 1] - 1
            if not 0 < size < 0x80 or not 0 < count < 0x7F:
                return 0
            self._name(data[position + 1 : rows - 1])
            unpack, plain = _marks(count)
            if unpack(data, rows) != plain:
                return 0
            position = rows + count * _ROW_SIZE
            if data[position]:
                return 0
            position += 1
        end = position + len(_NO_ERROR_NO_TAGS)
        return end if data[position:end] == _NO_ERROR_NO_TAGS else 0

    def group(self) -> GroupOffsetsAnswer:
        """Read any group."""
        return self.body(self.read(read_compact_string))

    def body(self, group_id: str) -> GroupOffsetsAnswer:
        """Read what follows the id of any group."""
        errors: dict[TopicPartition, ErrorCode] = {}
        topics = []
        for _ in range(self.array_length()):
            name = self._name(self.read(read_compact_string_as_bytes))
            count = self.array_length()
            rows = self.data[self.position : self.position + count * _ROW_SIZE]
            if len(rows) == count * _ROW_SIZE > 0 and _are_plain(rows, count):
                self.position += len(rows)
                topics.append(TopicOffsets(name, rows))
            else:
                topics.append(self._rows(name, count, errors))
            self.skip_tags()
        error = self.read(read_error_code)
        self.skip_tags()
        return GroupOffsetsAnswer(group_id, error, tuple(topics), errors or NO_ERRORS)

    def _name(self, raw: bytes) -> str:
        """Return a name that comes again and again; each is kept once."""
        return self._names.setdefault(raw, raw.decode())

    def _rows(self, topic: str, count: int, errors: dict[TopicPartition, ErrorCode]) -> TopicOffsets:
        rows: list[Row] = []
        for _ in range(count):
            partition, offset, epoch = _FIXED.unpack_from(self.data, self.position)
            self.position += _FIXED.size
            text = self.read(read_compact_string_nullable) or ""
            code = self.read(read_error_code)
            self.skip_tags()
            if code is not _NONE:
                errors[TopicPartition(topic, partition)] = code
                continue
            rows.append((partition, offset, epoch, text))
        return TopicOffsets.of_rows(topic, rows)


def build(
    group_ids: Sequence[str], specs: Mapping[str, ListConsumerGroupOffsetsSpec], require_stable: bool, version: int
) -> Message:
    """Build a request.

    :param specs: which partitions of which group; a group that is not in it is asked for all.

    Raises ``NoBatchedOffsetFetchError`` for several groups below v8.
    """
    if len(group_ids) > 1 and version < FIRST_BATCHED_VERSION:
        problem = f"OffsetFetch v{version} takes one group a request, not {len(group_ids)}"
        raise NoBatchedOffsetFetchError(f"{problem}; many take v{FIRST_BATCHED_VERSION}")
    wanted = [specs.get(group_id, ALL_PARTITIONS).topic_partitions for group_id in group_ids] if specs else [None]
    if wanted.count(None) == len(wanted):
        return encode(group_ids, require_stable, version)
    schema = request_schema(OFFSET_FETCH, version)
    if version < FIRST_BATCHED_VERSION:
        topics = _topics(schema.OffsetFetchRequestTopic, wanted[0])
        return schema.OffsetFetchRequest(group_id=group_ids[0], topics=topics, require_stable=require_stable)
    group_class, topic_class = schema.OffsetFetchRequestGroup, schema.OffsetFetchRequestTopics
    groups = tuple(
        group_class(group_id=group_id, topics=_topics(topic_class, partitions))
        for group_id, partitions in zip(group_ids, wanted, strict=True)
    )
    return schema.OffsetFetchRequest(groups=groups, require_stable=require_stable)


def _topics(topic_class: Any, partitions: Iterable[TopicPartition] | None) -> tuple[Any, ...] | None:
    if partitions is None:
        return None
    return by_topic(topic_class, dict.fromkeys(partitions), itemgetter(1))


def named(answer: OffsetFetchAnswer, group_ids: Sequence[str], version: int) -> OffsetFetchAnswer:
    """Fill in the group where the version has none; a version that has groups is never matched by position."""
    if version >= FIRST_BATCHED_VERSION:
        return answer
    (group_id,) = group_ids
    packed = dict.fromkeys(group_ids, answer.packed[""]) if answer.packed else {}
    groups = [group._replace(group_id=group_id) for group in answer.groups]
    return OffsetFetchAnswer(answer.throttle_time, packed, groups)
