"""A brief membership: join a group without members as a consumer, and leave it at once.

It has one effect: the coordinator records a new time at which the group became Empty. No partition is read or
assigned. The member subscribes to every topic of the group's offsets, because brokers may remove the offsets of other
topics while the group is Stable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_groups.exceptions import MembershipError
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.membership.session import MemberSession
from airflow_kafka_groups.kafka.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "stream")
"""The assignors of Kafka's own clients: a consumer can join a group only if all members know one of its assignors."""

_SESSION_SECONDS = 10.0
_JOIN_SECONDS = 60.0
_ANOTHER = "another member joined meanwhile"


async def join_and_leave(
    cluster: ClusterClient, group_id: str, topics: Sequence[str], *, assignors: Sequence[str] = ASSIGNORS
) -> None:
    """Join a group, and leave it as soon as the join is complete.

    It takes ``group.initial.rebalance.delay.ms`` of the broker, by default 3 s. If another member joins meanwhile, the
    group is left at once, and nothing is assigned.

    :param cluster: an open client.
    :param group_id: the group, which must have no members.
    :param topics: every topic of its committed offsets.
    :param assignors: what the member offers. Default: the assignors of Kafka's own clients.

    Raises ``MembershipError`` if another member joined or the join took too long, and ``KafkaGroupsError``.
    """
    options = MemberOptions(group_id=group_id, session_timeout=_SESSION_SECONDS, rebalance_timeout=_SESSION_SECONDS)
    member = _Visitor(group_id, topics, assignors)
    async with MemberSession(cluster, member, options) as session:
        try:
            await session.wait_stable(_JOIN_SECONDS)
        except TimeoutError:
            raise MembershipError(group_id, f"the join took more than {_JOIN_SECONDS:g} s") from None
        if not session.membership.is_leader:
            raise MembershipError(group_id, _ANOTHER)


class _Visitor(GroupMember):
    """A consumer that wants no partitions."""

    def __init__(self, group_id: str, topics: Sequence[str], assignors: Sequence[str]) -> None:
        self._group_id = group_id
        subscription = encode_subscription(Subscription(topics=tuple(sorted(set(topics)))))
        self._protocols = [GroupProtocol(name, subscription) for name in assignors]

    @property
    def protocol_type(self) -> str:
        return "consumer"

    async def metadata(self) -> Sequence[GroupProtocol]:
        return self._protocols

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        if len(all_member_metadata) > 1:
            raise MembershipError(self._group_id, _ANOTHER)
        return {leader_id: encode_assignment(Assignment())}

    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        return None

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        return None

    async def on_leave_prepare(self) -> None:
        return None
