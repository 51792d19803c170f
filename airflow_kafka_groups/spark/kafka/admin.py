"""An admin client for one group's offsets, through the Kafka client of Spark's connector.

It omits partitions whose offset it cannot read; therefore offsets are requested *by name*, and a partition that is
missing in the result is an error, never "no commit".
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.session import jvm_of
from airflow_kafka_groups.spark.unread.group import GroupStatus, OffsetsClient, TooLateError

_TIMEOUTS = {"default.api.timeout.ms": "60000", "request.timeout.ms": "30000"}
_NO_ID = "A" * 22
_CAUSED_BY = "Caused by: "
_UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"


class KafkaAdmin(OffsetsClient, AbstractContextManager["KafkaAdmin"]):
    """An admin client in the driver's JVM, closed at the end of the block."""

    def __init__(self, spark: SparkSession, properties: KafkaProperties) -> None:
        self._jvm = jvm_of(spark, "an access to Kafka")
        self._kafka: Any = self._jvm.org.apache.kafka
        self._properties = properties
        try:
            self._admin: Any = self._kafka.clients.admin.AdminClient.create({**_TIMEOUTS, **properties.settings})
        except Py4JJavaError as exc:
            why = properties.without_secrets(_innermost_cause(exc))
            raise JobError(f"the Kafka client cannot be made: {why}. Check the Kafka properties") from exc

    def __exit__(self, *error: object) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(5))

    def cluster_id(self, expected: str | None = None, what: str = "") -> str:
        """Return the cluster's id. Raises ``JobError`` if it is another one than expected.

        :param what: what has the expected id, for the message.
        """
        with explained(self._properties, "the cluster does not answer"):
            found = str(self._admin.describeCluster().clusterId().get())
        if expected not in (None, found):
            remedy = "use the properties of the same connection"
            raise JobError(f"{what} the cluster {expected}, and the Kafka properties lead to {found}: {remedy}")
        return found

    def state(self, group_id: str) -> GroupStatus:
        what = f"group {group_id!r} cannot be described"
        try:
            with explained(self._properties, what):
                found = self._admin.describeConsumerGroups([group_id]).all().get()
        except JobError as exc:
            if "GroupIdNotFoundException" in str(exc):  # clients from 4.0 on
                return GroupStatus("DEAD", 0)
            raise
        described = found.get(group_id)
        if described is None:
            raise JobError(f"{what}: its coordinator returned no result")
        return GroupStatus(str(described.state().name()), int(described.members().size()))

    def known(self, group_id: str) -> set[Partition]:
        # One text: several calls into the JVM for each partition take milliseconds. No topic has a comma in its name.
        names = str(self._listed(group_id, None).keySet().toString()).strip("[]").split(", ")
        named = (name.rpartition("-") for name in names if name)
        return {Partition(topic, int(number)) for topic, _, number in named}

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        wanted = sorted(set(partitions))
        listed = self._listed(group_id, wanted).entrySet() if wanted else ()
        found = {partition_of(entry.getKey()): _commit(entry.getValue()) for entry in listed}
        unread = [where for where in wanted if where not in found]
        if unread:
            raise JobError(
                f"the offsets of group {group_id!r} cannot be read in {len(unread)} partition(s), first {unread[0]}: "
                "a transaction may be open, or the user may lack Describe on the topic. Run the job again"
            )
        return {where: commit for where, commit in found.items() if commit is not None}

    def partitions(self, topics: Collection[str]) -> set[Partition]:
        found = self._topics(topics).items()
        return {
            Partition(topic, int(each.partition())) for topic, described in found for each in described.partitions()
        }

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return Kafka's own ids of these topics; those that do not exist, or have none (before 2.8), are omitted."""
        ids = {topic: str(described.topicId().toString()) for topic, described in self._topics(topics).items()}
        return {topic: id_ for topic, id_ in ids.items() if id_ != _NO_ID}

    def offsets_at(self, partitions: Iterable[Partition], at: datetime) -> dict[Partition, int]:
        """Return the first offset of each partition that has a record appended at or after a time."""
        found = self._list_offsets(sorted(set(partitions)), round(at.timestamp() * 1000), read_committed=False)
        return {where: offset for where, offset in found.items() if offset >= 0}

    def log_ends(self, partitions: Iterable[Partition], *, read_committed: bool = True) -> dict[Partition, LogEnds]:
        wanted = sorted(set(partitions))
        starts = self._list_offsets(wanted, "earliest", read_committed=False)
        ends = self._list_offsets(wanted, "latest", read_committed=read_committed)
        return {where: LogEnds(starts[where], ends[where]) for where in wanted}

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        made = self._kafka.clients.consumer.OffsetAndMetadata
        commits = {self._named(where): made(offset) for where, offset in offsets.items()}
        options = self._kafka.clients.admin.AlterConsumerGroupOffsetsOptions()
        if (left := int(1000 * (deadline - time.monotonic()))) <= 0:
            raise TooLateError(f"the commit of group {group_id!r} would leave too long after the group was read")
        options.timeoutMs(left)
        with explained(self._properties, f"the offsets of group {group_id!r} were not committed"):
            self._admin.alterConsumerGroupOffsets(group_id, commits, options).all().get()

    def _topics(self, topics: Collection[str]) -> dict[str, Any]:
        """Return the descriptions of topics, without those that do not exist."""
        found, answers = {}, self._admin.describeTopics(list(topics)).topicNameValues()
        for topic in topics:
            try:
                with explained(self._properties, f"topic {topic!r} cannot be described"):
                    found[topic] = answers.get(topic).get()
            except JobError as exc:
                if _UNKNOWN_TOPIC not in str(exc):
                    raise
        return found

    def _listed(self, group_id: str, partitions: Iterable[Partition] | None) -> Any:
        admin = self._kafka.clients.admin
        # Decisions use names and stable offsets. Without names only the partitions matter, and none is omitted.
        spec = admin.ListConsumerGroupOffsetsSpec()
        options = admin.ListConsumerGroupOffsetsOptions().requireStable(partitions is not None)
        if partitions is not None:
            spec.topicPartitions(list(map(self._named, partitions)))
        with explained(self._properties, f"the offsets of group {group_id!r} cannot be read"):
            listed = self._admin.listConsumerGroupOffsets({group_id: spec}, options)
            return listed.partitionsToOffsetAndMetadata(group_id).get()

    def _list_offsets(self, wanted: list[Partition], which: str | int, *, read_committed: bool) -> dict[Partition, int]:
        admin, levels = self._kafka.clients.admin, self._kafka.common.IsolationLevel
        options = admin.ListOffsetsOptions(levels.READ_COMMITTED if read_committed else levels.READ_UNCOMMITTED)
        spec = admin.OffsetSpec.forTimestamp(which) if isinstance(which, int) else getattr(admin.OffsetSpec, which)()
        named = {where: self._named(where) for where in wanted}
        with explained(self._properties, f"the {which} offsets of {len(wanted)} partition(s) cannot be read"):
            answer = self._admin.listOffsets(dict.fromkeys(named.values(), spec), options).all().get()
        return {where: int(answer.get(each).offset()) for where, each in named.items()}

    def _named(self, where: Partition) -> Any:
        return self._kafka.common.TopicPartition(where.topic, where.partition)


@contextmanager
def explained(properties: KafkaProperties, what: str) -> Iterator[None]:
    """Turn errors of the Kafka client within a block into ``JobError``: what failed, why, and at which brokers."""
    try:
        yield
    except Py4JJavaError as exc:
        why = properties.without_secrets(_innermost_cause(exc))
        raise JobError(f"{what}: {why} (brokers {properties.settings['bootstrap.servers']})") from exc


def partition_of(named: Any) -> Partition:
    """Convert Java's ``TopicPartition``."""
    return Partition(str(named.topic()), int(named.partition()))


def _commit(value: Any) -> Commit | None:
    if value is None:
        return None
    epoch = value.leaderEpoch()
    return Commit(int(value.offset()), int(epoch.get()) if epoch.isPresent() else None, str(value.metadata()))


def _innermost_cause(exc: Py4JJavaError) -> str:
    """Return the innermost cause: Java wraps it in ExecutionException and KafkaException.

    For a failed login, the message is a stack trace, which ends with its own.
    """
    error = exc.java_exception
    while (cause := error.getCause()) is not None:
        error = cause
    message = str(error.getMessage())
    causes = [line.removeprefix(_CAUSED_BY) for line in message.splitlines() if line.startswith(_CAUSED_BY)]
    text = f"{error.getClass().getSimpleName()}: {causes[-1] if causes else message}"
    if "Timeout" in text:
        return f"{text.rstrip('.')}. Check that the brokers can be reached, and the security protocol"
    return text
