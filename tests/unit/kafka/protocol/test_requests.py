"""Requests that are written by hand are what kio writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.models import GroupOffsets, GroupState, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS, LIST_GROUPS, METADATA, OFFSET_COMMIT
from airflow_kafka_groups.kafka.protocol.apis import delete_groups, list_groups, metadata, offset_commit
from airflow_kafka_groups.kafka.protocol.codec import encode_body, request_schema
from tests.unit.kafka.protocol.texts import TEXTS


@given(st.lists(TEXTS, max_size=4), st.booleans(), st.sampled_from([9, 10, 11, 12]))
def test_a_question_about_topics_is_what_kio_writes(topics: list[str], allowed: bool, version: int) -> None:
    schema = request_schema(METADATA, version)
    ids = {"topic_id": None} if version >= 10 else {}
    fields: dict[str, Any] = {"include_cluster_authorized_operations": allowed} if version <= 10 else {}
    request = schema.MetadataRequest(
        topics=tuple(schema.MetadataRequestTopic(name=topic, **ids) for topic in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=allowed,
        **fields,
    )
    assert metadata.build(topics, version, include_authorized_operations=allowed) == encode_body(request)


@given(st.lists(st.sampled_from(GroupState)), st.lists(st.sampled_from(GroupType)), st.sampled_from([3, 4, 5]))
def test_a_question_for_groups_is_what_kio_writes(
    states: list[GroupState], types: list[GroupType], version: int
) -> None:
    fields: dict[str, Any] = {"states_filter": tuple(states)} if version >= 4 else {}
    fields |= {"types_filter": tuple(types)} if version >= 5 else {}
    request = request_schema(LIST_GROUPS, version).ListGroupsRequest(**fields)
    assert list_groups.build(states, types, version) == encode_body(request)


def test_a_question_to_delete_is_what_kio_writes() -> None:
    request = request_schema(DELETE_GROUPS, 2).DeleteGroupsRequest(groups_names=("g", "ünï", "x" * 200))
    assert delete_groups.build(["g", "ünï", "x" * 200], 2) == encode_body(request)


NUMBERS = st.integers(0, 2**31 - 1)


COMMITS = st.dictionaries(
    st.tuples(st.sampled_from(["t", "ünï", "y" * 140]), NUMBERS),
    st.tuples(
        st.integers(0, 2**63 - 1),
        st.sampled_from(["", "", "m", "ünï", "x" * 130]),
        st.none() | NUMBERS,
    ),
    max_size=150,
).map(lambda drawn: {TopicPartition(*where): OffsetAndMetadata(*value) for where, value in drawn.items()})


@given(TEXTS, COMMITS, st.sampled_from([8, 9]), st.booleans())
def test_a_commit_is_what_kio_writes(
    group_id: str, commits: dict[TopicPartition, OffsetAndMetadata], version: int, columns: bool
) -> None:
    schema = request_schema(OFFSET_COMMIT, version)
    topics: dict[str, list[Any]] = {}
    for where, value in commits.items():
        partition = schema.OffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=value.offset,
            committed_leader_epoch=-1 if value.leader_epoch is None else value.leader_epoch,
            committed_metadata=value.metadata,
        )
        topics.setdefault(where.topic, []).append(partition)
    by_kio = schema.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(schema.OffsetCommitRequestTopic(name=n, partitions=tuple(p)) for n, p in topics.items()),
    )
    wanted: Any = GroupOffsets.from_mapping(group_id, dict(commits)) if columns else commits
    assert offset_commit.build(group_id, wanted, version) == encode_body(by_kio)
