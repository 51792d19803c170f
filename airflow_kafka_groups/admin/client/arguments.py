"""Check what callers pass in, before anything is sent: errors name the argument, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from airflow_kafka_groups.admin.results import GroupListings
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.models import (
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)

Commits = Mapping[TopicPartition, OffsetAndMetadata]

_MAX_OFFSET, _MAX_PARTITION = 2**63 - 1, 2**31 - 1
_MAX_ID_BYTES = 32767  # a Kafka string has a two-byte length
_MANY = 200_000
_PARTS = 4
_SURELY_SHORT = _MAX_ID_BYTES // 4  # a character has at most four bytes


def group_ids_of(group_ids: Iterable[str], name: str = "group_ids") -> list[str]:
    """Return the ids without duplicates, in order. An empty list is fine here: it asks about nothing.

    Raises ``ConfigurationError`` for a single string (its letters are not meant), and for what is not a string.
    """
    if isinstance(group_ids, str | bytes):
        raise ConfigurationError(name, group_ids, "give a list of ids; for one, a list with that one")
    unique = _unique(group_ids)
    if set(map(type, unique)) == {str} and max(map(len, unique)) <= _SURELY_SHORT:  # as nearly always
        return unique
    for group_id in unique:
        if not isinstance(group_id, str):
            raise ConfigurationError(name, group_id, "every id must be a string")
        if len(group_id.encode("utf-8", "replace")) > _MAX_ID_BYTES:
            raise ConfigurationError(name, group_id, f"an id has at most {_MAX_ID_BYTES} bytes")
    return unique


def _unique(group_ids: Iterable[str]) -> list[str]:
    """Return the ids without duplicates, in their order.

    A dict of millions of them takes more memory than the engine does. So a long list is searched for duplicates in
    parts, and is copied as it is when there are none.
    """
    if isinstance(group_ids, list) and len(group_ids) > _MANY:
        for part in range(_PARTS):
            some = [group_id for group_id in group_ids if hash(group_id) % _PARTS == part]
            if len(set(some)) < len(some):
                break
        else:
            return group_ids.copy()
    return list(dict.fromkeys(group_ids))


def one_or_many(
    groups: Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec],
) -> tuple[list[str], Mapping[str, ListConsumerGroupOffsetsSpec]]:
    """Return the ids, and the specs of those that have one. A listing (``list_groups``) is ids without specs."""
    wanted = group_ids_of(groups, "groups")
    specs: dict[str, ListConsumerGroupOffsetsSpec] = {}
    if isinstance(groups, Mapping) and not isinstance(groups, GroupListings):
        for group_id, spec in groups.items():
            if not isinstance(spec, ListConsumerGroupOffsetsSpec):
                raise ConfigurationError(f"groups[{group_id!r}]", spec, "give a ListConsumerGroupOffsetsSpec")
            some = spec.topic_partitions  # read once: an iterator would be empty when the group is asked for again
            specs[group_id] = spec if some is None else ListConsumerGroupOffsetsSpec(tuple(partitions_of(some)))
    return wanted, specs


def partition_specs_of(specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetSpec]:
    """Return the specs with real ``TopicPartition`` keys (plain pairs are accepted)."""
    checked: dict[TopicPartition, OffsetSpec] = {}
    for key, spec in specs.items():
        if not isinstance(spec, OffsetSpec):
            raise ConfigurationError(f"specs[{key!r}]", spec, "give an OffsetSpec, e.g. OffsetSpec.latest()")
        checked[_partition(key)] = spec
    return checked


def partitions_of(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions without duplicates, as real ``TopicPartition`` (plain pairs are accepted)."""
    return list(dict.fromkeys(_partition(item) for item in partitions))


def commits_of(offsets: Mapping[str, Commits]) -> dict[str, Commits]:
    """Check what is to be committed, and return it in columns.

    Raises ``ConfigurationError`` for an offset below 0: -1 reads as "no commit", and is not a way to delete one.
    """
    checked: dict[str, Commits] = {}
    for group_id in group_ids_of(offsets, "offsets"):
        of_group = offsets[group_id]
        if not (isinstance(of_group, GroupOffsets) and _are_commits(of_group)):
            named = {_partition(key): value for key, value in of_group.items()}
            for partition, value in named.items():
                if not isinstance(value, OffsetAndMetadata):
                    raise ConfigurationError(_field(group_id, partition), value, "give an OffsetAndMetadata")
                if not 0 <= value.offset <= _MAX_OFFSET:
                    raise ConfigurationError(_field(group_id, partition), value.offset, "an offset is 0 to 2**63 - 1")
            of_group = cast("Commits", GroupOffsets.from_mapping(group_id, named))  # each partition has one
        checked[group_id] = of_group
    return checked


def _are_commits(offsets: GroupOffsets) -> bool:
    """Return whether columns can be committed as they are: every partition once, and with an offset."""
    topics = offsets.topics
    if len(topics) > 1 and len({topic.topic for topic in topics}) != len(topics):
        return False
    for topic in topics:
        if not len(topic):
            continue
        flat = topic.flat_rows()
        partitions = flat[0::3]
        if min(partitions) < 0 or min(flat[1::3]) < 0 or len(set(partitions)) != len(partitions):
            return False
        if min(flat[2::3]) < -1:  # -1 where there is none
            return False
    return True


def _field(group_id: str, partition: TopicPartition) -> str:
    return f"offsets[{group_id!r}][{partition.topic}[{partition.partition}]]"


def _partition(key: object) -> TopicPartition:
    match key:
        case (str(topic), int(partition)) if 0 <= partition <= _MAX_PARTITION:
            return TopicPartition(topic, partition)
    raise ConfigurationError("partition", key, "give TopicPartition(topic, partition number of 0 or more)")


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    """Compile a regular expression for group ids.

    Raises ``ConfigurationError`` when it is not one.
    """
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError("group_id_pattern", text, f"is not a regular expression: {error}") from error
