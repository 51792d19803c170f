"""The cluster's metadata: its id, its brokers, the leaders of ``__consumer_offsets``. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_kafka_groups.exceptions import ConnectionFailedError
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, OffsetsTopic
from airflow_kafka_groups.kafka.models import Broker, BrokerId, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster at one moment."""

    cluster_id: str | None = None
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    offsets_topic: OffsetsTopic | None = None

    @classmethod
    def from_answer(cls, answer: MetadataAnswer) -> ClusterMetadata:
        """Convert the answer to a Metadata request for ``__consumer_offsets``.

        The topic may not exist yet, or may be hidden from this user: then groups cannot be routed by hash.
        """
        count = answer.partition_counts.get(OFFSETS_TOPIC, 0)
        leaders = tuple(answer.leaders.get(TopicPartition(OFFSETS_TOPIC, partition)) for partition in range(count))
        return cls(
            answer.cluster_id,
            {broker.broker_id: broker for broker in answer.brokers},
            OffsetsTopic(leaders) if count else None,
        )

    def require_same_cluster(self, cluster_id: str | None) -> None:
        """Raise ``ConnectionFailedError`` for an answer of another cluster, as far as both ids are known."""
        here, there = known_id(self.cluster_id), known_id(cluster_id)
        if here is not None and there is not None and here != there:
            raise ConnectionFailedError(
                "cluster",
                f"an address of cluster {here} leads to cluster {there} now: nothing is asked there. Check the "
                "bootstrap servers, the brokers' advertised listeners and the DNS; then run it again",
            )

    def leaderless_partitions(self) -> list[TopicPartition]:
        """Return the partitions of ``__consumer_offsets`` without a live leader: no broker lists their groups.

        There are none where the topic does not exist yet or is hidden from this user.
        """
        leaders = () if self.offsets_topic is None else self.offsets_topic.leaders
        return [
            TopicPartition(OFFSETS_TOPIC, partition)
            for partition, leader in enumerate(leaders)
            if leader is None or leader not in self.brokers
        ]
