"""``MaintenanceClient``: the ``AdminClient`` with what plans, backups, restores and migrations need beside it."""

from __future__ import annotations

import asyncio
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from airflow_kafka_groups.exceptions import KafkaGroupsError, MembershipError, MissingAnswerError
from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient
from airflow_kafka_groups.kafka.admin.client.calls import ChangePolicy
from airflow_kafka_groups.kafka.admin.handlers.groups import OFFSETS_RETENTION, DescribeRetentionHandler
from airflow_kafka_groups.kafka.cluster.config import ClientConfig, ConnectionPrint
from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.membership.session import MemberSession
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA
from airflow_kafka_groups.kafka.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.kafka.records import LogRecord, Span, SpanRecords, read_spans

T = TypeVar("T")

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "stream")
"""The assignors of Kafka's own clients: a consumer can join a group only if all members know one of its assignors."""

_SESSION_SECONDS = 10.0
_JOIN_SECONDS = 60.0
_ANOTHER = "another member joined meanwhile"

_TOPICS_IN_REQUEST = 1_000
_ABSENT = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.topic_authorization_failed,
    ErrorCode.invalid_topic_exception,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRetention:
    """How long each live broker keeps the offsets of a group without members (``offsets.retention.minutes``).

    :param by_broker: minutes, by broker.
    :param errors: the brokers whose value is not known, and why: not allowed, no answer, or not reported.
    """

    by_broker: Mapping[BrokerId, int]
    errors: Mapping[BrokerId, KafkaGroupsError] = field(default_factory=dict)

    @property
    def minutes(self) -> int | None:
        """The smallest value of all brokers, which any group may meet; ``None`` unless every broker's is known."""
        return min(self.by_broker.values()) if self.by_broker and not self.errors else None


class MaintenanceClient(AdminClient):
    """An ``AdminClient`` that also asks about topics and brokers, reads records, and joins groups."""

    def __init__(self, config: ClientConfig, policy: ChangePolicy | None = None) -> None:
        super().__init__(config, policy=policy)
        self._config, self.policy = config, policy

    @cached_property
    def connection(self) -> ConnectionPrint:
        """The fingerprint of the connection."""
        return ConnectionPrint.of(self._config)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics (KIP-516), as Kafka's own tools write them. A topic that was recreated has another.

        Topics that do not exist, or that this user may not describe, are left out; so are all of them before Kafka 2.8.
        Asking creates no topic. Raises any other error of a topic, and ``KafkaGroupsError``.
        """
        wanted = list(dict.fromkeys(topics))
        ids: dict[str, str] = {}
        for start in range(0, len(wanted), _TOPICS_IN_REQUEST):
            answer = await self.authorized_operations(wanted[start : start + _TOPICS_IN_REQUEST])
            for topic, code in answer.errors.items():
                if code not in _ABSENT:
                    raise broker_error(code, METADATA, subject=f"topic {topic!r}")
            ids |= {topic: urlsafe_b64encode(id_).decode().rstrip("=") for topic, id_ in answer.topic_ids.items()}
        return ids

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> list[SpanRecords[T]]:
        """Read spans of partitions; see ``kafka.records``. It needs Read on the topics, and joins no group."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(read_spans, self._config, spans, keep, cancelled) if spans else []
        finally:
            cancelled.set()

    async def offsets_retention(self) -> OffsetsRetention:
        """Return how long each live broker keeps the offsets of a group without members; needs DescribeConfigs."""
        brokers = (await self._calls.cluster.fresh_metadata()).brokers
        minutes: dict[BrokerId, int] = {}
        errors: dict[BrokerId, KafkaGroupsError] = {}
        for broker_id, settings, error in await self._calls.ask_brokers(brokers, DescribeRetentionHandler()):
            told = (settings or {}).get(OFFSETS_RETENTION)
            if told is not None and told.isdecimal():
                minutes[broker_id] = int(told)
            else:
                errors[broker_id] = error or MissingAnswerError(
                    f"broker {broker_id} reports {told!r} for {OFFSETS_RETENTION}"
                )
        return OffsetsRetention(by_broker=minutes, errors=errors)

    async def join_and_leave(self, group_id: str, topics: Sequence[str], assignors: Sequence[str] = ASSIGNORS) -> None:
        """Join a group without members as a consumer, and leave it as soon as the join is complete.

        It takes ``group.initial.rebalance.delay.ms`` of the broker, by default 3 s, and has one effect: the coordinator
        records a new time at which the group became Empty. Nothing is assigned.

        :param topics: every topic of its offsets: brokers may remove those of others while the group is Stable.
        :param assignors: what the member offers. Default: the assignors of Kafka's own clients.

        Raises the policy's error for a group that may not be changed, ``MembershipError`` if another member joined or
        the join took too long, and ``KafkaGroupsError``.
        """
        for error in self._calls.refusals([group_id]).values():
            raise error
        options = MemberOptions(group_id=group_id, session_timeout=_SESSION_SECONDS, rebalance_timeout=_SESSION_SECONDS)
        async with MemberSession(self._calls.cluster, _Visitor(group_id, topics, assignors), options) as session:
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

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        return None
