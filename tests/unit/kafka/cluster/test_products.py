"""Products are recognized by what they cannot hide, and never guessed."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.kafka.cluster.products import recognize


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
