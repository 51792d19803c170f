"""confluent-kafka (librdkafka) as a peer: one request for each group, all of them under way at once.

Best use: ``list_consumer_group_offsets`` takes one group a call, so every call is made before the first result is
waited for; ``describe_consumer_groups`` and ``delete_consumer_groups`` take all groups in one call and give a future
for each. Defaults but for the timeouts, which are raised. There is no call for coordinators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from tests.bench.peers.python_peer import CALL_TIMEOUT_S, Reading, Tally, serve


def _make() -> AdminClient:
    return AdminClient({"bootstrap.servers": sys.argv[1], "socket.timeout.ms": int(CALL_TIMEOUT_S * 1000)})


def _outcomes(futures: Iterable[Future[Any]]) -> list[Any]:
    outcomes: list[Any] = []
    for future in futures:
        try:
            outcomes.append(future.result())
        except KafkaException as error:
            outcomes.append(error)
    return outcomes


def _list_offsets(admin: AdminClient, group_ids: list[str]) -> Reading:
    futures: list[Future[Any]] = []
    for group_id in group_ids:
        asked = [ConsumerGroupTopicPartitions(group_id)]
        futures += admin.list_consumer_group_offsets(asked, request_timeout=CALL_TIMEOUT_S).values()
    outcomes = _outcomes(futures)

    def read(tally: Tally) -> None:
        for outcome in outcomes:
            if isinstance(outcome, KafkaException):
                tally.fail(outcome)
                continue
            tally.groups += 1
            for partition in outcome.topic_partitions:
                tally.offsets += 1
                tally.checksum += partition.offset

    return read


def _describe(admin: AdminClient, group_ids: list[str]) -> Reading:
    futures = admin.describe_consumer_groups(group_ids, request_timeout=CALL_TIMEOUT_S)
    outcomes = _outcomes(futures.values())

    def read(tally: Tally) -> None:
        for outcome in outcomes:
            if isinstance(outcome, KafkaException):
                tally.fail(outcome)
            else:
                tally.groups += outcome.state is ConsumerGroupState.EMPTY

    return read


def _delete(admin: AdminClient, group_ids: list[str]) -> Reading:
    futures = admin.delete_consumer_groups(group_ids, request_timeout=CALL_TIMEOUT_S)
    outcomes = _outcomes(futures.values())

    def read(tally: Tally) -> None:
        for outcome in outcomes:
            if isinstance(outcome, KafkaException):
                tally.fail(outcome)
            else:
                tally.groups += 1

    return read


def _list_groups(admin: AdminClient, _group_ids: list[str]) -> Reading:
    listed = admin.list_consumer_groups(request_timeout=CALL_TIMEOUT_S).result()

    def read(tally: Tally) -> None:
        tally.groups = len(listed.valid)
        for error in listed.errors:
            tally.fail(error)

    return read


CALLS: dict[str, Callable[[AdminClient, list[str]], Reading]] = {
    "list_offsets": _list_offsets,
    "describe": _describe,
    "delete": _delete,
    "list_groups": _list_groups,
}

if __name__ == "__main__":
    serve(_make, CALLS)
