"""How long brokers keep the committed offsets of a group without members: ``offsets.retention.minutes`` (KIP-211)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import KafkaGroupsError, MissingAnswerError
from airflow_kafka_groups.kafka.models import BrokerId

OFFSETS_RETENTION = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of a broker.

    :param value: its value; ``None`` if it is not set, or sensitive.
    :param is_default: whether it is Kafka's default, set nowhere.
    """

    value: str | None
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRetention:
    """The offsets retention of every live broker.

    :param by_broker: minutes, by broker.
    :param defaults: the brokers whose value is Kafka's default.
    :param errors: the brokers whose value is not known, and why: not allowed, no answer, or not reported.
    """

    by_broker: Mapping[BrokerId, int]
    defaults: frozenset[BrokerId] = frozenset()
    errors: Mapping[BrokerId, KafkaGroupsError]

    @property
    def minutes(self) -> int | None:
        """The smallest value of all brokers, which any group may meet; ``None`` unless every broker's is known."""
        return min(self.by_broker.values()) if self.by_broker and not self.errors else None

    @property
    def is_default(self) -> bool:
        """Whether every broker has Kafka's default."""
        return bool(self.by_broker) and not self.errors and self.defaults == self.by_broker.keys()

    @property
    def differs(self) -> bool:
        """Whether brokers have different values: what a group gets depends on its coordinator."""
        return len(set(self.by_broker.values())) > 1


def offsets_retention_of(
    configs: Mapping[BrokerId, Mapping[str, ConfigEntry] | KafkaGroupsError],
) -> OffsetsRetention:
    """Read the retention out of the brokers' configs."""
    minutes: dict[BrokerId, int] = {}
    defaults: set[BrokerId] = set()
    errors: dict[BrokerId, KafkaGroupsError] = {}
    for broker_id, config in configs.items():
        if isinstance(config, KafkaGroupsError):
            errors[broker_id] = config
            continue
        entry = config.get(OFFSETS_RETENTION)
        if entry is None or entry.value is None or not entry.value.isdecimal():
            found = "nothing" if entry is None else repr(entry.value)
            errors[broker_id] = MissingAnswerError(f"broker {broker_id} reports {found} for {OFFSETS_RETENTION}")
            continue
        minutes[broker_id] = int(entry.value)
        if entry.is_default:
            defaults.add(broker_id)
    return OffsetsRetention(by_broker=minutes, defaults=frozenset(defaults), errors=errors)
