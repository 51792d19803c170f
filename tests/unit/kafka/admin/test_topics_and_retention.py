"""What the client of maintenance asks beside groups: topic ids, and how long brokers keep offsets."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from airflow_kafka_groups.exceptions import BrokerError, MissingAnswerError
from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.admin.handlers.groups import OFFSETS_RETENTION
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_CONFIGS, METADATA
from airflow_kafka_groups.kafka.protocol.codec import response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, FakeCluster

ID = UUID(int=2**128 - 1)
NONE = ErrorCode.none


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(versions={1: MODERN, 2: MODERN}) as started:
        yield started


def client(cluster: FakeCluster) -> MaintenanceClient:
    return MaintenanceClient(ClientConfig.from_librdkafka({"bootstrap.servers": cluster.bootstrap}))


def tell_ids(cluster: FakeCluster, topics: Mapping[str, tuple[UUID | None, ErrorCode]]) -> list[list[str]]:
    """Let brokers know these topics, and note those asked for."""
    asked: list[list[str]] = []

    def answer(broker_id: int, version: int, request: Any) -> Any:
        names = [topic.name for topic in request.topics]
        if not topics.keys() & set(names):
            return None
        asked.append(names)
        schema, usual = response_schema(METADATA, version), cluster.metadata(version)
        found = [
            schema.MetadataResponseTopic(error_code=topics[name][1], name=name, topic_id=topics[name][0], partitions=())
            for name in names
        ]
        return schema.MetadataResponse(
            throttle_time=answers.NO_THROTTLE, brokers=usual.brokers, topics=tuple(found), cluster_id="fake"
        )

    cluster.control(METADATA, answer)
    return asked


async def test_thousands_of_topics_are_asked_in_portions_and_each_once(cluster: FakeCluster) -> None:
    names = [f"t{number}" for number in range(2_500)]
    asked = tell_ids(cluster, dict.fromkeys(names, (ID, NONE)))
    async with client(cluster) as admin:
        assert await admin.topic_ids([*names, *names[:10]]) == dict.fromkeys(names, "_" * 21 + "w")
        assert await admin.topic_ids([]) == {}
    assert [len(each) for each in asked] == [1_000, 1_000, 500], "no topics are no question"


async def test_brokers_before_2_8_have_no_ids() -> None:
    async with FakeCluster(versions={1: {**MODERN, "Metadata": (1, 8)}}) as cluster, client(cluster) as admin:
        assert await admin.topic_ids(["__consumer_offsets"]) == {}


@pytest.mark.safety
async def test_only_topics_that_do_not_exist_or_are_hidden_are_left_out(cluster: FakeCluster) -> None:
    async with client(cluster) as admin:
        for code in ErrorCode:
            tell_ids(cluster, {"bad": (None, code), "good": (ID, NONE), "without": (None, NONE)})
            if code in (0, 3, 17, 29):
                assert list(await admin.topic_ids(["bad", "good", "without"])) == ["good"]
                continue
            with pytest.raises(BrokerError, match="topic 'bad'") as failed:
                await admin.topic_ids(["bad", "good", "without"])
            assert failed.value.code == code


def tell_retention(cluster: FakeCluster, values: Mapping[int, str | ErrorCode | None]) -> None:
    """Let brokers report their retention, or an error."""

    def answer(broker_id: int, version: int, request: Any) -> Any:
        (resource,) = request.resources
        assert (resource.resource_name, resource.configuration_keys) == (str(broker_id), (OFFSETS_RETENTION,))
        schema, value = response_schema(DESCRIBE_CONFIGS, version), values[broker_id]
        failed = isinstance(value, ErrorCode)
        told = schema.DescribeConfigsResourceResult(
            name=OFFSETS_RETENTION,
            value=None if failed else value,
            read_only=False,
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        result = schema.DescribeConfigsResult(
            error_code=value if failed else NONE,
            error_message=None,
            resource_type=4,
            resource_name=resource.resource_name,
            configs=() if failed else (told,),
        )
        return schema.DescribeConfigsResponse(throttle_time=answers.NO_THROTTLE, results=(result,))

    cluster.control(DESCRIBE_CONFIGS, answer)


async def test_the_smallest_retention_of_all_brokers_counts(cluster: FakeCluster) -> None:
    tell_retention(cluster, {1: "10080", 2: "1440"})
    async with client(cluster) as admin:
        found = await admin.offsets_retention()
    assert (found.minutes, dict(found.by_broker), dict(found.errors)) == (1_440, {1: 10_080, 2: 1_440}, {})


@pytest.mark.safety
@pytest.mark.parametrize("value", [None, "", "-1", "soon", ErrorCode.cluster_authorization_failed])
async def test_a_broker_that_does_not_tell_leaves_no_number(
    cluster: FakeCluster, value: str | ErrorCode | None
) -> None:
    tell_retention(cluster, {1: "60", 2: value})
    async with client(cluster) as admin:
        found = await admin.offsets_retention()
    assert (found.minutes, dict(found.by_broker), list(found.errors)) == (None, {1: 60}, [2])
    error = found.errors[2]
    if isinstance(value, ErrorCode):
        assert isinstance(error, BrokerError)
        assert (error.name, error.broker_id, error.api) == ("CLUSTER_AUTHORIZATION_FAILED", 2, "DescribeConfigs")
    else:
        assert isinstance(error, MissingAnswerError)
