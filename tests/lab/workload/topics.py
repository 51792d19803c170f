"""Topics with records in them, for tests, demo and benchmark. Everything takes bootstrap servers."""

from collections.abc import Iterable, Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.lab.errors import LabError
from tests.lab.machine.waiting import until
from tests.lab.wire import connect_any, leaders

TIMEOUT_S = 30.0


def quiet(bootstrap: str, **options: str | float | bool) -> dict[str, str | int | float | bool]:
    """Return a librdkafka configuration that does not write to stderr when brokers come and go."""
    return {"bootstrap.servers": bootstrap, "log_level": 2, **{k.replace("_", "."): v for k, v in options.items()}}


class Repeated:
    """Whether a test runs a second time: what the first run created exists then."""

    test = False


def create_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    *,
    replication_factor: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics and wait until every broker knows all their leaders.

    :param partitions: topic -> number of partitions.

    Raises LabError when a topic cannot be created, for example because it is there already.
    """
    wanted = [
        NewTopic(topic, num_partitions=count, replication_factor=replication_factor, config=dict(config or {}))
        for topic, count in partitions.items()
    ]
    admin = AdminClient(quiet(bootstrap))
    for topic, future in admin.create_topics(wanted, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as exc:
            if Repeated.test and exc.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            raise LabError(f"Cannot create the topic {topic}: {exc.args[0].str()}.") from exc
    wait_for_topics(bootstrap, partitions)


def wait_for_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Wait until every broker of ``bootstrap`` knows a leader of every partition."""
    for address in bootstrap.split(","):
        said = f"The broker at {address} did not learn of {', '.join(partitions)} in time."
        until(partial(_knows, address, partitions), TIMEOUT_S, said)


def _knows(address: str, partitions: Mapping[str, int]) -> bool:
    with connect_any(address, timeout=TIMEOUT_S) as connection:
        metadata = connection.metadata(tuple(partitions))
    return all(len(leaders(metadata, topic)) == count for topic, count in partitions.items())


def delete_topics(bootstrap: str, topics: Iterable[str]) -> None:
    """Delete topics; raises LabError when one is not there."""
    admin = AdminClient(quiet(bootstrap))  # its futures fail once it is gone
    for topic, future in admin.delete_topics(list(topics), operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as exc:
            raise LabError(f"Cannot delete the topic {topic}: {exc.args[0].str()}.") from exc


def topic_id_of(bootstrap: str, topic: str) -> str:
    """Return a topic's id, as Kafka spells it."""
    admin = AdminClient(quiet(bootstrap))
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    return str(found.topic_id).translate(str.maketrans("+/", "-_"))  # librdkafka writes the other base64


def delete_records(bootstrap: str, before: Mapping[tuple[str, int], int]) -> None:
    """Delete the records before an offset, as retention does in its time.

    :param before: (topic, partition) -> the new log start.
    """
    admin = AdminClient(quiet(bootstrap))
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
    for future in admin.delete_records(wanted, operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def produce(bootstrap: str, records: Mapping[tuple[str, int], int], *, timeout: float = TIMEOUT_S) -> None:
    """Write records and wait until the brokers have them.

    :param records: (topic, partition) -> how many.
    :param timeout: seconds until they have to.
    """
    failed: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(quiet(bootstrap, linger_ms=20))
    for (topic, partition), count in records.items():
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, f"record {number}".encode(), partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(timeout)
    if failed or left:
        raise LabError(
            f"{len(failed) + left} records were not written. First error: {failed[0] if failed else 'none'}."
        )
