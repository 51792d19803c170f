"""Let users do things on a cluster whose authorizer forbids everything else."""

import importlib
from typing import Any

from tests.lab.cluster import KafkaCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
"""Configure a KRaft cluster so: whoever does not log in (the lab) and ``admin`` may do everything."""

_TIMEOUT_S = 60.0


def allow(
    cluster: KafkaCluster,
    user: str,
    kind: str,
    name: str,
    *operations: str,
    prefixed: bool = False,
    permission: str = "ALLOW",
) -> None:
    """Allow a user operations on a resource, or deny them.

    :param kind: ``TOPIC``, ``GROUP`` or ``BROKER`` (the cluster).
    :param name: its name, ``*`` for all, or the beginning of names with ``prefixed``.
    :param permission: ``ALLOW`` or ``DENY``.
    """
    kafka: Any = importlib.import_module("confluent_kafka.admin")  # its type information lacks half of these names
    pattern = kafka.ResourcePatternType["PREFIXED" if prefixed else "LITERAL"]
    acls = [
        kafka.AclBinding(
            kafka.ResourceType[kind],
            name,
            pattern,
            f"User:{user}",
            "*",
            kafka.AclOperation[operation],
            kafka.AclPermissionType[permission],
        )
        for operation in operations
    ]
    client = kafka.AdminClient({"bootstrap.servers": cluster.bootstrap})  # has to outlive what it promised
    for made in client.create_acls(acls).values():
        made.result(_TIMEOUT_S)
