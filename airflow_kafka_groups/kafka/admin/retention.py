"""How long brokers keep the offsets of a group without members: ``offsets.retention.minutes``, asked of each broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_kafka_groups.exceptions import KafkaGroupsError, MissingAnswerError
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.engine.handler import KeyedHandler
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_CONFIGS, Api
from airflow_kafka_groups.kafka.protocol.apis import describe_configs
from airflow_kafka_groups.kafka.protocol.codec import Message

OFFSETS_RETENTION = "offsets.retention.minutes"
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRetention:
    """The offsets retention of every live broker.

    :param by_broker: minutes, by broker.
    :param errors: the brokers whose value is not known, and why: not allowed, no answer, or not reported.
    """

    by_broker: Mapping[BrokerId, int]
    errors: Mapping[BrokerId, KafkaGroupsError] = field(default_factory=dict)

    @property
    def minutes(self) -> int | None:
        """The smallest value of all brokers, which any group may meet; ``None`` unless every broker's is known."""
        return min(self.by_broker.values()) if self.by_broker and not self.errors else None


@dataclass(frozen=True, slots=True)
class DescribeRetentionHandler(KeyedHandler[BrokerId, dict[str, str | None]]):
    """DescribeConfigs. The keys are the brokers themselves, one a request."""

    api: ClassVar[Api] = DESCRIBE_CONFIGS
    batch_size: ClassVar[int] = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a broker counts as one that does not tell."""
        return _TRIES

    def build(self, keys: Sequence[BrokerId], version: int) -> Message:
        """Build a request for one broker."""
        return describe_configs.build(keys[0], [OFFSETS_RETENTION], version)

    def subject(self, key: BrokerId) -> str:
        """Return nothing: the error names the broker."""
        return ""


async def offsets_retention(calls: Calls) -> OffsetsRetention:
    """Ask each live broker. It needs DescribeConfigs on the cluster; a broker that does not tell has its error."""
    brokers = (await calls.cluster.fresh_metadata()).brokers
    minutes: dict[BrokerId, int] = {}
    errors: dict[BrokerId, KafkaGroupsError] = {}
    for broker_id, settings, error in await calls.ask_brokers(brokers, DescribeRetentionHandler()):
        told = (settings or {}).get(OFFSETS_RETENTION)
        if told is not None and told.isdecimal():
            minutes[broker_id] = int(told)
        else:
            errors[broker_id] = error or MissingAnswerError(
                f"broker {broker_id} reports {told!r} for {OFFSETS_RETENTION}"
            )
    return OffsetsRetention(by_broker=minutes, errors=errors)
