"""Check what callers pass in, before anything is sent: errors name the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import SupportsIndex, TypeVar, cast

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.models import (
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.regexes import compile_regex

E = TypeVar("E", bound=Enum)
Some = TypeVar("Some")
Commits = Mapping[TopicPartition, OffsetAndMetadata]

_MAX_OFFSET, _MAX_PARTITION = 2**63 - 1, 2**31 - 1
_MAX_ID_BYTES = 32767  # a Kafka string has a two-byte length


def group_ids_of(group_ids: Iterable[str], name: str = "group_ids") -> list[str]:
    """Return the ids without duplicates, in order. An empty list is fine here: it asks about nothing.

    Raises ``ConfigurationError`` for a single string (its letters are not meant), and for what is not a string.
    """
    unique = list(dict.fromkeys(many(group_ids, name)))
    if set(map(type, unique)) == {str} and all(map(str.isascii, unique)) and max(map(len, unique)) <= _MAX_ID_BYTES:
        return unique  # as nearly always
    for group_id in unique:
        if not isinstance(group_id, str):
            raise ConfigurationError(name, group_id, "every id must be a string")
        _check_text(name, group_id, "an id")
    return unique


def _check_text(name: str, text: str, what: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # half of a pair, as of a file that was read with ``surrogateescape``
        raise ConfigurationError(name, text, f"{what} is text that can be written as UTF-8: read it as such") from None
    if size > _MAX_ID_BYTES:
        raise ConfigurationError(name, text, f"{what} has at most {_MAX_ID_BYTES} bytes")


def many(group_ids: Some, name: str) -> Some:
    """Return what has many ids; raise ``ConfigurationError`` for a single one, and for what has none."""
    if isinstance(group_ids, str | bytes):
        raise ConfigurationError(name, group_ids, "give a list of ids; for one, a list with that one")
    if not isinstance(group_ids, Iterable):
        raise ConfigurationError(name, group_ids, "give a list of ids")
    return group_ids


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
        if not (_is_whole(spec.timestamp, -_MAX_OFFSET, _MAX_OFFSET)):
            raise ConfigurationError(f"specs[{key!r}]", spec.timestamp, "a time is a whole number of milliseconds")
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
                _check_commit(_field(group_id, partition), value)
            of_group = cast("Commits", GroupOffsets.from_mapping(group_id, named))  # each partition has one
        checked[group_id] = of_group
    return checked


def _check_commit(name: str, value: OffsetAndMetadata) -> None:
    offset, metadata, epoch = value
    if not _is_whole(offset, 0, _MAX_OFFSET):
        raise ConfigurationError(name, offset, "an offset is 0 to 2**63 - 1")
    if not isinstance(metadata, str):
        raise ConfigurationError(f"{name}.metadata", metadata, "give a string, empty for none")
    _check_text(f"{name}.metadata", metadata, "metadata")
    if epoch is not None and not _is_whole(epoch, -1, _MAX_PARTITION):
        raise ConfigurationError(f"{name}.leader_epoch", epoch, "an epoch is 0 to 2**31 - 1, or None")


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, SupportsIndex) and least <= value.__index__() <= most


def _are_commits(offsets: GroupOffsets) -> bool:
    """Return whether columns can be committed as they are: every partition once, and with an offset."""
    least = ((0, 0), (1, 0), (2, -1))  # of partitions, offsets and leader epochs
    rows = [topic.flat_rows() for topic in offsets.topics]
    return (
        all(min(flat[place::3], default=0) >= number for flat in rows for place, number in least)
        and len({topic.topic for topic in offsets.topics}) == len(offsets.topics)
        and all(len({*flat[0::3]}) == len(flat) // 3 for flat in rows)
    )


def _field(group_id: str, partition: TopicPartition) -> str:
    return f"offsets[{group_id!r}][{partition.topic}[{partition.partition}]]"


def _partition(key: object) -> TopicPartition:
    match key:
        case (str(topic), int(partition)) if 0 <= partition <= _MAX_PARTITION:
            _check_text("partition", topic, "a topic")
            return TopicPartition(topic, partition)
    raise ConfigurationError("partition", key, "give TopicPartition(topic, partition number of 0 or more)")


def members_of(kind: type[E], values: Iterable[E | str], name: str) -> tuple[E, ...]:
    """Return the members of an enumeration that callers name.

    Raises ``ConfigurationError`` for a single string (its letters are not meant), and for what is no member.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigurationError(name, values, f"give a list; of {', '.join(str(each.value) for each in kind)}")
    found: list[E] = []
    for value in values:
        try:
            found.append(kind(value))
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise ConfigurationError(name, value, f"use one of {known}") from None
    return tuple(found)


def pattern_of(text: str | None) -> Callable[[str], object] | None:
    """Compile a regular expression for group ids, and return what matches it. Raises ``ConfigurationError``."""
    if text is None:
        return None
    try:
        return compile_regex(text).fullmatch  # type: ignore[no-any-return]
    except (ValueError, TypeError) as error:
        raise ConfigurationError("group_id_pattern", text, f"is not a regular expression: {error}") from None
