"""Where a group is: routed by its hash as Kafka does, unless the product does otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.cluster.products import recognize
from airflow_kafka_groups.kafka.cluster.routing import OffsetsTopic, java_hash, java_hashes, offsets_partitions


def test_hashes_are_javas() -> None:
    # What Java prints for "…".hashCode()
    assert java_hash("") == 0
    assert java_hash("a") == 97
    assert java_hash("my-consumer-group") == 1513705513
    assert java_hash("ünïcode-✓") == -1471483472
    assert java_hash("𝄞") == 1772394, "a surrogate pair is two units"


def test_the_smallest_integer_goes_to_partition_zero() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert offsets_partitions(["polygenelubricants"], 50)[0] == 0


@given(st.text(max_size=40))
def test_the_quick_way_for_ascii_is_the_same_as_the_long_one(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) % 2**32
    assert java_hash(text) % 2**32 == value


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=120) | st.text(max_size=40), max_size=40))
def test_many_at_once_are_hashed_as_one_by_one(texts: list[str]) -> None:
    assert java_hashes(texts) == [java_hash(text) for text in texts]


def test_more_than_fit_side_by_side_keep_their_order() -> None:
    texts = [f"group-{'x' * (number % 7)}-{number}" for number in range(20_000)]
    texts[9_000] = "polygenelubricants"
    texts[17_000] = "ünïcode"
    assert java_hashes(texts) == [java_hash(text) for text in texts]
    partitions = offsets_partitions(texts, 50)
    assert partitions == [offsets_partitions([text], 50)[0] for text in texts]
    assert partitions[9_000] == 0


@given(st.text(max_size=40), st.integers(1, 200))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= offsets_partitions([group_id], partitions)[0] < partitions


def test_a_group_whose_partition_has_no_leader_is_left_to_be_asked_for() -> None:
    topic = OffsetsTopic((7, None))
    groups = ["a", "b"]  # 97 and 98: partitions 1 and 0
    assert topic.route(groups) == {"b": 7}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("pkc-4nmjv.francecentral.azure.confluent.cloud", "Confluent Cloud"),
        ("my-namespace.servicebus.windows.net", "Azure Event Hubs"),
        ("MY-NAMESPACE.SERVICEBUS.WINDOWS.NET.", "Azure Event Hubs"),
        ("boot-ab12.c1.kafka-serverless.us-east-1.amazonaws.com", "Amazon MSK Serverless"),
        ("b-1.mine.abcdef.c2.kafka.eu-west-1.amazonaws.com", "Amazon MSK"),
        ("b-1.mine.abcdef.c2.kafka.cn-north-1.amazonaws.com.cn", "Amazon MSK"),
        ("seed-1.abc.fmc.prd.cloud.redpanda.com", "Redpanda"),
        ("api-1234.warpstream.com", "WarpStream"),
        ("kafka-1.example.org", None),
        ("servicebus.windows.net.example.org", None),
        ("localhost", None),
    ],
)
def test_by_the_name_of_a_server(host: str, name: str | None) -> None:
    product = recognize(["b1", host])
    assert (product.name if product else None) == name


@pytest.mark.parametrize(
    ("cluster_id", "name"),
    [
        ("redpanda.initializing", "Redpanda"),
        ("redpanda.4f0f9f1e", "Redpanda"),
        ("MkU3OEVBNTcwNTJENDM2Qg", None),
        (None, None),
    ],
)
def test_by_the_clusters_id(cluster_id: str | None, name: str | None) -> None:
    product = recognize(["b1"], cluster_id)
    assert (product.name if product else None) == name
