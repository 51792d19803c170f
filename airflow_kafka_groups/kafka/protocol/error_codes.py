"""Kafka's error codes with descriptions, and the bit field of authorized operations (KIP-430)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.kafka.protocol.api_versions import Api

__all__ = ["ErrorCode", "broker_error", "UNKNOWN_OPERATIONS", "operations"]


def _of_newer_broker(kind: type[ErrorCode], value: object) -> ErrorCode | None:
    """Make a code that kio does not know: brokers have more with each release, and one key's fails no other key."""
    if not isinstance(value, int) or not -(2**15) <= value < 2**15:
        return None
    code = int.__new__(kind, value)
    code._name_, code._value_, code.retriable = "unknown_error_code", value, False
    return code


ErrorCode._missing_ = classmethod(_of_newer_broker)  # type: ignore[assignment,method-assign]


_DESCRIPTIONS = {
    ErrorCode.unknown_server_error: "the broker met an unexpected error; its log says more",
    ErrorCode.unknown_topic_or_partition: "the topic or partition does not exist, or may not be seen by this user",
    ErrorCode.leader_not_available: "the partition has no leader just now",
    ErrorCode.not_leader_or_follower: "the broker does not lead the partition any more",
    ErrorCode.request_timed_out: "the broker gave up on the request",
    ErrorCode.coordinator_load_in_progress: "the coordinator is still loading its groups",
    ErrorCode.coordinator_not_available: "there is no coordinator just now",
    ErrorCode.not_coordinator: "the broker does not coordinate this group",
    ErrorCode.invalid_group_id: "the broker does not accept this group id",
    ErrorCode.topic_authorization_failed: "this user may not read the topic (needs Describe or Read on it)",
    ErrorCode.group_authorization_failed: "not allowed on the group (Describe to look, Read to join, Delete to delete)",
    ErrorCode.cluster_authorization_failed: "this user may not do this with the cluster",
    ErrorCode.transactional_id_authorization_failed: "this user may not see the transactional id",
    ErrorCode.unsupported_version: "the broker does not support this version of the request",
    ErrorCode.invalid_request: "the broker finds the request invalid",
    ErrorCode.inconsistent_group_protocol: "the group has members of another protocol type, or with other protocols",
    ErrorCode.fenced_instance_id: "another process has joined with the same group.instance.id",
    ErrorCode.invalid_session_timeout: "the broker accepts another range: group.min.session.timeout.ms, …max…",
    ErrorCode.group_max_size_reached: "the group has as many members as the broker allows (group.max.size)",
    ErrorCode.non_empty_group: "the group has members",
    ErrorCode.group_id_not_found: "the group does not exist",
    ErrorCode.unstable_offset_commit: "an open transaction holds offsets of the group back",
    ErrorCode.group_subscribed_to_topic: "a member of the group is subscribed to the topic",
}


def broker_error(
    code: ErrorCode, api: Api, *, broker_id: int | None = None, subject: str = "", message: str | None = None
) -> BrokerError:
    """Build the exception for an error code, with the broker's own message where it sent one."""
    description = message or _DESCRIPTIONS.get(code, "see the error codes in Kafka's protocol guide")
    return BrokerError(int(code), code.name.upper(), description, api=api.name, broker_id=broker_id, subject=subject)


UNKNOWN_OPERATIONS = -(2**31)
"""The value where operations were not asked for, or the broker is too old."""
_NAMES = {
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    9: "cluster_action",
    10: "describe_configs",
    11: "alter_configs",
    12: "idempotent_write",
}


def operations(bits: int) -> frozenset[str] | None:
    """Read the bit field; ``None`` where operations were not asked for, or the broker is too old."""
    if bits == UNKNOWN_OPERATIONS:
        return None
    return frozenset(name for bit, name in _NAMES.items() if bits & (1 << bit))
