"""confluent-kafka (librdkafka) as a peer: one request for each group, a thousand groups under way at once.

Best use: ``list_consumer_group_offsets`` takes one group a call, so calls are made long before the first result is
waited for; ``describe_consumer_groups`` and ``delete_consumer_groups`` take many groups and give a future for each. All
10,000 at once is no faster, and about one new client in ten then never gets an answer to some 1,900 requests for
coordinators (2.16.1; after its timeout the process aborts on an assertion). Defaults but for the timeouts, which are
raised. There is no call for coordinators.
"""

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from tests.bench.peers.python_peer import CALL_TIMEOUT_S, Reading, Tally, each, serve

AT_ONCE = 1000


def _make() -> AdminClient:
    return AdminClient({"bootstrap.servers": sys.argv[1], "socket.timeout.ms": int(CALL_TIMEOUT_S * 1000)})


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except KafkaException as error:
        return error


def _list_offsets(admin: AdminClient, group_ids: list[str]) -> Reading:
    outcomes: list[Any] = []
    under_way: deque[Future[Any]] = deque()
    for group_id in group_ids:
        if len(under_way) == AT_ONCE:
            outcomes.append(_outcome(under_way.popleft()))
        asked = [ConsumerGroupTopicPartitions(group_id)]
        under_way.extend(admin.list_consumer_group_offsets(asked, request_timeout=CALL_TIMEOUT_S).values())
    outcomes += [_outcome(future) for future in under_way]

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


def _in_slices(
    call: Callable[..., dict[str, Future[Any]]], group_ids: list[str], is_right: Callable[[Any], bool]
) -> Reading:
    outcomes: list[Any] = []
    for start in range(0, len(group_ids), AT_ONCE):
        futures = call(group_ids[start : start + AT_ONCE], request_timeout=CALL_TIMEOUT_S)
        outcomes += [_outcome(future) for future in futures.values()]
    return each((one, False) if isinstance(one, KafkaException) else (None, is_right(one)) for one in outcomes)


def _describe(admin: AdminClient, group_ids: list[str]) -> Reading:
    return _in_slices(admin.describe_consumer_groups, group_ids, lambda one: one.state is ConsumerGroupState.EMPTY)


def _delete(admin: AdminClient, group_ids: list[str]) -> Reading:
    return _in_slices(admin.delete_consumer_groups, group_ids, lambda _: True)


CALLS: dict[str, Callable[[AdminClient, list[str]], Reading]] = {
    "list_offsets": _list_offsets,
    "describe": _describe,
    "delete": _delete,
}

if __name__ == "__main__":
    serve(_make, CALLS)
