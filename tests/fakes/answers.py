"""Broker answers made with kio, as a broker would send them: for fate tables and for the scripted cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from airflow_kafka_groups.kafka.protocol.api_versions import (
    ALTER_SHARE_OFFSETS,
    API_VERSIONS,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    DESCRIBE_SHARE_OFFSETS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis import decode_response
from airflow_kafka_groups.kafka.protocol.codec import encode_body, response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.apis import ALL_APIS

NONE = ErrorCode.none
NO_THROTTLE = timedelta()


def frame(response: Any) -> bytes:
    """Write a response as a broker sends it, without its length."""
    head = b"\x00\x00\x00\x07" + (b"\x00" if response.__header_schema__.__version__ == 1 else b"")
    return head + encode_body(response)


def decoded(response: Any) -> Any:
    """Decode a response that was made with kio into the answer that handlers get."""
    key, version = response.__api_key__, response.__version__
    return decode_response(next(api for api in ALL_APIS if api.key == key), version, frame(response))


def fields_left_out(message: Any) -> list[str]:
    """Return the fields of one of kio's messages, and of its parts, that have their default: nobody set them."""
    found = [field.name for field in fields(message) if getattr(message, field.name) == field.default]
    parts = [part for field in fields(message) for part in _parts(getattr(message, field.name))]
    return found + [name for part in parts for name in fields_left_out(part)]


def _parts(value: Any) -> list[Any]:
    return [part for part in value if is_dataclass(part)] if isinstance(value, tuple) else []


def fitting(entity: Any, **fields: Any) -> Any:
    """Make an entity of the fields that its version has."""
    fields = {"throttle_time": NO_THROTTLE, **fields}
    return entity(**{name: value for name, value in fields.items() if name in entity.__dataclass_fields__})


def _topics(topic: Any, partition: Any, parts: Mapping[tuple[str, int], Mapping[str, Any]]) -> tuple[Any, ...]:
    """Make topics of partitions with these fields."""
    by_topic: dict[str, list[Any]] = {}
    for (name, number), values in parts.items():
        by_topic.setdefault(name, []).append(fitting(partition, partition_index=number, **values))
    return tuple(
        fitting(topic, name=name, topic_name=name, topic_id=None, partitions=tuple(some))
        for name, some in by_topic.items()
    )


def _coordinators(version: int, found: Mapping[str, tuple[int, str, int, ErrorCode]]) -> Any:
    schema = response_schema(FIND_COORDINATOR, version)
    rows = [
        {"key": key, "node_id": node, "host": host, "port": port, "error_code": code, "error_message": None}
        for key, (node, host, port, code) in found.items()
    ]
    if version >= BATCHING[FIND_COORDINATOR]:
        return fitting(schema.FindCoordinatorResponse, coordinators=tuple(schema.Coordinator(**row) for row in rows))
    (row,) = rows
    return fitting(schema.FindCoordinatorResponse, **row)


def find_coordinator(version: int, errors: dict[str, ErrorCode]) -> Any:
    return _coordinators(version, {key: (1, "b1", 9092, code) for key, code in errors.items()})


def find_coordinators(version: int, found: Mapping[str, int], ports: Mapping[int, int]) -> Any:
    """Name the coordinator of each key, with the broker's real address."""
    return _coordinators(version, {key: (node, "127.0.0.1", ports[node], NONE) for key, node in found.items()})


def api_versions(ranges: Mapping[int, tuple[int, int]]) -> Any:
    """Announce versions, in the form that every client can read (v0)."""
    schema = response_schema(API_VERSIONS, 0)
    keys = tuple(
        schema.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
    )
    return schema.ApiVersionsResponse(error_code=NONE, api_keys=keys)


def metadata(
    version: int, ports: Mapping[int, int], topics: Mapping[str, Sequence[int]], cluster_id: str = "fake"
) -> Any:
    """Name the brokers, and the leaders of each topic's partitions."""
    schema = response_schema(METADATA, version)
    brokers = tuple(
        schema.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in ports.items()
    )
    answered = []
    for topic, leaders in topics.items():
        rows: list[dict[str, Any]] = [
            {"partition_index": number, "leader_id": leader, "replica_nodes": (leader,), "isr_nodes": (leader,)}
            for number, leader in enumerate(leaders)
        ]
        partitions = tuple(schema.MetadataResponsePartition(error_code=NONE, **row) for row in rows)
        kind, topic_id = schema.MetadataResponseTopic, UUID(int=7)
        answered.append(fitting(kind, error_code=NONE, name=topic, topic_id=topic_id, partitions=partitions))
    return fitting(schema.MetadataResponse, brokers=brokers, topics=tuple(answered), cluster_id=cluster_id)


def offset_fetch(
    version: int, groups: dict[str, ErrorCode], partitions: dict[tuple[str, int], tuple[int, ErrorCode]] | None = None
) -> Any:
    """Make an answer in which every group has the same partitions: (topic, partition) -> (offset, error)."""
    schema = response_schema(OFFSET_FETCH, version)
    parts = {
        where: {"committed_offset": offset, "committed_leader_epoch": 5, "metadata": "m", "error_code": code}
        for where, (offset, code) in (partitions or {}).items()
    }
    if version >= BATCHING[OFFSET_FETCH]:
        topics = _topics(schema.OffsetFetchResponseTopics, schema.OffsetFetchResponsePartitions, parts)
        of_group = schema.OffsetFetchResponseGroup
        answers = tuple(of_group(group_id=key, topics=topics, error_code=code) for key, code in groups.items())
        return fitting(schema.OffsetFetchResponse, groups=answers)
    topics = _topics(schema.OffsetFetchResponseTopic, schema.OffsetFetchResponsePartition, parts)
    ((_, code),) = groups.items()
    return fitting(schema.OffsetFetchResponse, topics=topics, error_code=code)


def delete_groups(version: int, groups: dict[str, ErrorCode]) -> Any:
    schema = response_schema(DELETE_GROUPS, version)
    results = tuple(schema.DeletableGroupResult(group_id=key, error_code=code) for key, code in groups.items())
    return fitting(schema.DeleteGroupsResponse, results=results)


def list_groups(version: int, code: ErrorCode, groups: tuple[str, ...] = (), *, kind: str = "classic") -> Any:
    schema = response_schema(LIST_GROUPS, version)
    listed = tuple(
        fitting(schema.ListedGroup, group_id=group_id, protocol_type="consumer", group_state="Empty", group_type=kind)
        for group_id in groups
    )
    return fitting(schema.ListGroupsResponse, error_code=code, groups=listed)


def describe_groups(
    version: int, groups: dict[str, ErrorCode], state: str = "Empty", message: str | None = None
) -> Any:
    """Answer about groups.

    :param message: that of each group, with its name in braces.
    """
    said = {group_id: message and message.format(group_id) for group_id in groups}
    return _described(DESCRIBE_GROUPS, version, groups, state, said)


def modern_group_describe(api: Api, version: int, groups: dict[str, ErrorCode]) -> Any:
    return _described(api, version, groups, "Stable", dict.fromkeys(groups))


def _described(
    api: Api, version: int, groups: dict[str, ErrorCode], state: str, messages: Mapping[str, str | None]
) -> Any:
    schema = response_schema(api, version)
    same: dict[str, Any] = {
        "protocol_type": "consumer",
        "protocol_data": "range",
        "assignor_name": "uniform",
        "members": (),
    }
    same |= {"group_state": state, "group_epoch": 1, "assignment_epoch": 1, "authorized_operations": -(2**31)}
    described = tuple(
        fitting(schema.DescribedGroup, error_code=code, error_message=messages[key], group_id=key, **same)
        for key, code in groups.items()
    )
    return fitting(getattr(schema, f"{api.name}Response"), groups=described)


def list_offsets(version: int, partitions: dict[tuple[str, int], tuple[int, ErrorCode]]) -> Any:
    schema = response_schema(LIST_OFFSETS, version)
    parts = {
        where: {"error_code": code, "timestamp": -1, "offset": offset, "leader_epoch": 3}
        for where, (offset, code) in partitions.items()
    }
    topics = _topics(schema.ListOffsetsTopicResponse, schema.ListOffsetsPartitionResponse, parts)
    return fitting(schema.ListOffsetsResponse, topics=topics)


def _codes(partitions: Mapping[tuple[str, int], ErrorCode]) -> dict[tuple[str, int], dict[str, Any]]:
    return {where: {"error_code": code} for where, code in partitions.items()}


def offset_commit(version: int, partitions: dict[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(OFFSET_COMMIT, version)
    topics = _topics(schema.OffsetCommitResponseTopic, schema.OffsetCommitResponsePartition, _codes(partitions))
    return fitting(schema.OffsetCommitResponse, topics=topics)


def offset_delete(code: ErrorCode, partitions: dict[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(OFFSET_DELETE, 0)
    topics = _topics(schema.OffsetDeleteResponseTopic, schema.OffsetDeleteResponsePartition, _codes(partitions))
    return fitting(schema.OffsetDeleteResponse, error_code=code, topics=topics)


def share_offsets(
    version: int,
    groups: Mapping[str, ErrorCode],
    starts: Mapping[str, Mapping[tuple[str, int], tuple[int, ErrorCode]]] | None = None,
) -> Any:
    schema = response_schema(DESCRIBE_SHARE_OFFSETS, version)
    topic, part, group = (
        getattr(schema, f"DescribeShareGroupOffsetsResponse{name}") for name in ("Topic", "Partition", "Group")
    )
    made = []
    for group_id, code in groups.items():
        parts = {
            where: {"start_offset": start, "leader_epoch": 0, "error_code": each}
            for where, (start, each) in (starts or {}).get(group_id, {}).items()
        }
        made.append(group(group_id=group_id, topics=_topics(topic, part, parts), error_code=code))
    return fitting(schema.DescribeShareGroupOffsetsResponse, groups=tuple(made))


def altered_share_offsets(code: ErrorCode, partitions: Mapping[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(ALTER_SHARE_OFFSETS, 0)
    topic, part = schema.AlterShareGroupOffsetsResponseTopic, schema.AlterShareGroupOffsetsResponsePartition
    topics = _topics(topic, part, _codes(partitions))
    return fitting(schema.AlterShareGroupOffsetsResponse, error_code=code, responses=topics)


ALL_CODES = tuple(ErrorCode)
BATCHING: dict[Api, int] = {FIND_COORDINATOR: 4, OFFSET_FETCH: 8}
