"""A transaction that is left open: offsets of a group that are written and not decided about."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

_TIMEOUT_S = 60.0


@contextmanager
def open_transaction(
    bootstrap: str, group_id: str, offsets: Mapping[tuple[str, int], int]
) -> Iterator[Callable[[], None]]:
    """Commit offsets for a group in a transaction, and give what ends it well.

    It is given up on the way out if it is still open.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"lab-{group_id}", "log_level": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0})
    is_open = True

    def commit() -> None:
        nonlocal is_open
        producer.commit_transaction(_TIMEOUT_S)
        is_open = False

    try:
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()],
            consumer.consumer_group_metadata(),
            _TIMEOUT_S,
        )
        try:
            yield commit
        finally:
            if is_open:
                producer.abort_transaction(_TIMEOUT_S)
    finally:
        consumer.close()
