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


def _throttled(schema: Any, name: str, **fields: Any) -> Any:
    response = getattr(schema, name)
    if "throttle_time" in response.__dataclass_fields__:
        fields["throttle_time"] = NO_THROTTLE
    return response(**fields)


def _fits(entity: Any, **fields: Any) -> Any:
    """Make an entity of the fields that its version has."""
    return entity(**{name: value for name, value in fields.items() if name in entity.__dataclass_fields__})


def find_coordinator(version: int, errors: dict[str, ErrorCode], node: int = 1) -> Any:
    schema = response_schema(FIND_COORDINATOR, version)
    host = "b1" if node >= 0 else ""
    if version >= 4:
        coordinators = tuple(
            schema.Coordinator(key=key, node_id=node, host=host, port=9092, error_code=code, error_message=None)
            for key, code in errors.items()
        )
        return schema.FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)
    ((_, code),) = errors.items()
    fields: dict[str, Any] = {"error_code": code, "node_id": node, "host": host, "port": 9092}
    if version >= 1:
        fields["error_message"] = None
    return _throttled(schema, "FindCoordinatorResponse", **fields)


def find_coordinators(version: int, found: Mapping[str, int], ports: Mapping[int, int]) -> Any:
    """Name the coordinator of each key, with the broker's real address."""
    schema = response_schema(FIND_COORDINATOR, version)
    if version >= 4:
        coordinators = tuple(
            schema.Coordinator(
                key=key, node_id=node, host="127.0.0.1", port=ports[node], error_code=NONE, error_message=None
            )
            for key, node in found.items()
        )
        return schema.FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)
    ((_, node),) = found.items()
    fields: dict[str, Any] = {"error_code": NONE, "node_id": node, "host": "127.0.0.1", "port": ports[node]}
    if version >= 1:
        fields["error_message"] = None
    return _throttled(schema, "FindCoordinatorResponse", **fields)


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
    answered = tuple(
        _fits(
            schema.MetadataResponseTopic,
            error_code=NONE,
            name=topic,
            topic_id=UUID(int=7),
            partitions=tuple(
                schema.MetadataResponsePartition(
                    error_code=NONE,
                    partition_index=index,
                    leader_id=leader,
                    replica_nodes=(leader,),
                    isr_nodes=(leader,),
                )
                for index, leader in enumerate(leaders)
            ),
        )
        for topic, leaders in topics.items()
    )
    return _throttled(schema, "MetadataResponse", brokers=brokers, topics=answered, cluster_id=cluster_id)


def offset_fetch(
    version: int, groups: dict[str, ErrorCode], partitions: dict[tuple[str, int], tuple[int, ErrorCode]] | None = None
) -> Any:
    """Make an answer in which every group has the same partitions: (topic, partition) -> (offset, error)."""
    schema = response_schema(OFFSET_FETCH, version)
    batched = version >= 8
    topic_class = schema.OffsetFetchResponseTopics if batched else schema.OffsetFetchResponseTopic
    partition_class = schema.OffsetFetchResponsePartitions if batched else schema.OffsetFetchResponsePartition
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), (offset, code) in (partitions or {}).items():
        item = _fits(
            partition_class,
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=5,
            metadata="m",
            error_code=code,
        )
        by_topic.setdefault(topic, []).append(item)
    topics = tuple(topic_class(name=topic, partitions=tuple(parts)) for topic, parts in by_topic.items())
    if batched:
        answers = tuple(
            schema.OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=code)
            for group_id, code in groups.items()
        )
        return schema.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=answers)
    ((_, code),) = groups.items()
    return _throttled(schema, "OffsetFetchResponse", topics=topics, error_code=code)


def delete_groups(version: int, groups: dict[str, ErrorCode]) -> Any:
    schema = response_schema(DELETE_GROUPS, version)
    results = tuple(schema.DeletableGroupResult(group_id=key, error_code=code) for key, code in groups.items())
    return _throttled(schema, "DeleteGroupsResponse", results=results)


def list_groups(version: int, code: ErrorCode, groups: tuple[str, ...] = (), *, kind: str = "classic") -> Any:
    schema = response_schema(LIST_GROUPS, version)
    listed = tuple(
        _fits(schema.ListedGroup, group_id=group_id, protocol_type="consumer", group_state="Empty", group_type=kind)
        for group_id in groups
    )
    return _throttled(schema, "ListGroupsResponse", error_code=code, groups=listed)


def describe_groups(
    version: int, groups: dict[str, ErrorCode], state: str = "Empty", message: str | None = None
) -> Any:
    """Answer about groups.

    :param message: that of each group, with its name in braces.
    """
    schema = response_schema(DESCRIBE_GROUPS, version)
    described = tuple(
        _fits(
            schema.DescribedGroup,
            error_code=code,
            error_message=message and message.format(group_id),
            group_id=group_id,
            group_state=state,
            protocol_type="consumer",
            protocol_data="range",
            members=(),
            authorized_operations=-(2**31),
        )
        for group_id, code in groups.items()
    )
    return _throttled(schema, "DescribeGroupsResponse", groups=described)


def modern_group_describe(api: Api, version: int, groups: dict[str, ErrorCode]) -> Any:
    schema = response_schema(api, version)
    described = tuple(
        _fits(
            schema.DescribedGroup,
            error_code=code,
            error_message=None,
            group_id=group_id,
            group_state="Stable",
            group_epoch=1,
            assignment_epoch=1,
            assignor_name="uniform",
            members=(),
            authorized_operations=-(2**31),
        )
        for group_id, code in groups.items()
    )
    return _throttled(schema, f"{api.name}Response", groups=described)


def list_offsets(version: int, partitions: dict[tuple[str, int], tuple[int, ErrorCode]]) -> Any:
    schema = response_schema(LIST_OFFSETS, version)
    topics = tuple(
        schema.ListOffsetsTopicResponse(
            name=topic,
            partitions=(
                _fits(
                    schema.ListOffsetsPartitionResponse,
                    partition_index=partition,
                    error_code=code,
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=3,
                ),
            ),
        )
        for (topic, partition), (offset, code) in partitions.items()
    )
    return _throttled(schema, "ListOffsetsResponse", topics=topics)


def offset_commit(version: int, partitions: dict[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(OFFSET_COMMIT, version)
    topics = tuple(
        schema.OffsetCommitResponseTopic(
            name=topic, partitions=(schema.OffsetCommitResponsePartition(partition_index=partition, error_code=code),)
        )
        for (topic, partition), code in partitions.items()
    )
    return _throttled(schema, "OffsetCommitResponse", topics=topics)


def offset_delete(code: ErrorCode, partitions: dict[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(OFFSET_DELETE, 0)
    topics = tuple(
        schema.OffsetDeleteResponseTopic(
            name=topic, partitions=(schema.OffsetDeleteResponsePartition(partition_index=partition, error_code=item),)
        )
        for (topic, partition), item in partitions.items()
    )
    return _throttled(schema, "OffsetDeleteResponse", error_code=code, topics=topics)


def share_offsets(
    version: int,
    groups: Mapping[str, ErrorCode],
    starts: Mapping[str, Mapping[tuple[str, int], tuple[int, ErrorCode]]] | None = None,
) -> Any:
    schema = response_schema(DESCRIBE_SHARE_OFFSETS, version)

    def topics(group_id: str) -> Any:
        for (topic, number), (start, code) in (starts or {}).get(group_id, {}).items():
            part = schema.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number, start_offset=start, leader_epoch=0, error_code=code
            )
            yield schema.DescribeShareGroupOffsetsResponseTopic(topic_name=topic, topic_id=None, partitions=(part,))

    made = [
        schema.DescribeShareGroupOffsetsResponseGroup(group_id=one, topics=tuple(topics(one)), error_code=code)
        for one, code in groups.items()
    ]
    return _throttled(schema, "DescribeShareGroupOffsetsResponse", groups=tuple(made))


def altered_share_offsets(code: ErrorCode, partitions: Mapping[tuple[str, int], ErrorCode]) -> Any:
    schema = response_schema(ALTER_SHARE_OFFSETS, 0)
    topics = [
        schema.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic,
            topic_id=None,
            partitions=(schema.AlterShareGroupOffsetsResponsePartition(partition_index=number, error_code=each),),
        )
        for (topic, number), each in partitions.items()
    ]
    return _throttled(schema, "AlterShareGroupOffsetsResponse", error_code=code, responses=tuple(topics))


ALL_CODES = tuple(ErrorCode)
BATCHING: dict[Api, int] = {FIND_COORDINATOR: 4, OFFSET_FETCH: 8}
