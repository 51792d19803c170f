"""Managed and compatible products, recognized by the names of their servers and the form of their cluster ids.

Only what changes how groups can be maintained is here. What a broker supports is read from its API versions, whatever
its product is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product whose groups differ from Apache Kafka's.

    :param note: what differs, in one sentence.
    :param lists_empty_groups: whether a listing has groups without members. Default true.
    :param places_as_kafka: whether a group's partition of ``__consumer_offsets`` is that of its hash. Default false.
    """

    name: str
    note: str
    lists_empty_groups: bool = True
    places_as_kafka: bool = False


EVENT_HUBS = Product(
    name="Azure Event Hubs",
    note="It lists groups with members only, so no group can be found stale and a backup by pattern leaves out stopped "
    "groups.",
    lists_empty_groups=False,
)
CONFLUENT_CLOUD = Product(
    name="Confluent Cloud",
    note="It hides __consumer_offsets, so coordinators are looked up and there is no log of commits to read.",
)
MSK_SERVERLESS = Product(
    name="Amazon MSK Serverless",
    note="It reads one group per request and may answer DescribeGroups late; a group without an answer is kept.",
)
MSK = Product(name="Amazon MSK", note="It behaves as the Apache Kafka release that it runs.", places_as_kafka=True)
REDPANDA = Product(
    name="Redpanda",
    note="It maps groups to brokers in its own way, so coordinators are looked up; older releases read one group per "
    "request.",
)
WARPSTREAM = Product(
    name="WarpStream",
    note="Its agents come and go, so listings may be incomplete; nothing is judged or deleted by an incomplete one.",
)

_SERVERS = (
    (re.compile(r"\.servicebus\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn|cloudapi\.de)$"), EVENT_HUBS),
    (re.compile(r"\.confluent\.cloud$"), CONFLUENT_CLOUD),
    (re.compile(r"\.kafka-serverless\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$"), MSK_SERVERLESS),
    (re.compile(r"\.kafka\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$"), MSK),
    (re.compile(r"\.redpanda\.com$"), REDPANDA),
    (re.compile(r"\.warpstream\.com$"), WARPSTREAM),
)
_REDPANDA_ID = "redpanda."
_PLACEHOLDER_IDS = frozenset({"redpanda.initializing"})


def known_id(cluster_id: str | None) -> str | None:
    """Return a cluster's id, ``None`` for one that any cluster may have: it would make two clusters look like one."""
    return None if cluster_id in _PLACEHOLDER_IDS else cluster_id


def recognize(hosts: Iterable[str], cluster_id: str | None = None) -> Product | None:
    """Return the product of a cluster; ``None`` where nothing distinguishes it from Apache Kafka.

    :param hosts: names of bootstrap servers or brokers, without ports.
    :param cluster_id: the cluster's id, if it is known.
    """
    for host in hosts:
        for pattern, product in _SERVERS:
            if pattern.search(host.lower().rstrip(".")):
                return product
    return REDPANDA if cluster_id is not None and cluster_id.startswith(_REDPANDA_ID) else None


def is_google(servers: str) -> bool:
    """Return whether the brokers are Google's, which need tokens of Google's own library."""
    return "cloud.goog" in servers and "managedkafka" in servers
