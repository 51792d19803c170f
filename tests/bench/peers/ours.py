"""Our own client as a peer: ``AdminClient`` with its defaults, one client kept on one event loop.

The timeout of a whole call is raised, as for every other peer. All results are collected (the mapping, not the stream).
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.kafka.transport.aiokafka_connection import OpeningConnection
from airflow_kafka_groups.kafka.transport.pipeline import Pipeline
from tests.bench.peers.python_peer import CALL_TIMEOUT_S, Reading, Tally, each, serve

_loop = asyncio.new_event_loop()
_requests = 0
"""So many were sent, those that open connections included."""


def _count(kind: type[Any], method: str, number: Callable[..., int]) -> None:
    real = getattr(kind, method)

    def counted(*given: Any, **more: Any) -> Any:
        global _requests
        _requests += number(*given)
        return real(*given, **more)

    setattr(kind, method, counted)


_count(OpeningConnection, "send", lambda *_: 1)
_count(Pipeline, "submit", lambda _pipeline, _first, frames, *_: len(frames))


def _make() -> AdminClient:
    config = ClientConfig.from_librdkafka(
        {"bootstrap.servers": sys.argv[1]}, api_timeout=CALL_TIMEOUT_S, request_timeout=CALL_TIMEOUT_S
    )
    return _loop.run_until_complete(AdminClient(config).__aenter__())


def _list_offsets(admin: AdminClient, group_ids: list[str]) -> Reading:
    results = _loop.run_until_complete(admin.list_consumer_group_offsets(group_ids))

    def read(tally: Tally) -> None:
        for result in results.values():
            if result.value is None:
                tally.fail(result.error)
                continue
            tally.groups += 1
            for committed in result.value.values():
                if committed is not None:
                    tally.offsets += 1
                    tally.checksum += committed.offset

    return read


def _find_coordinators(admin: AdminClient, group_ids: list[str]) -> Reading:
    results = _loop.run_until_complete(admin.find_coordinators(group_ids))

    def read(tally: Tally) -> None:
        for result in results.values():
            if result.value is None:
                tally.fail(result.error)
            else:
                tally.groups += 1
                tally.checksum += result.value.broker_id

    return read


def _describe(admin: AdminClient, group_ids: list[str]) -> Reading:
    found = _loop.run_until_complete(admin.describe_consumer_groups(group_ids)).values()
    return each((one.error, one.value is not None and one.value.state is GroupState.EMPTY) for one in found)


def _delete(admin: AdminClient, group_ids: list[str]) -> Reading:
    return each((one.error, True) for one in _loop.run_until_complete(admin.delete_consumer_groups(group_ids)).values())


CALLS: dict[str, Callable[[AdminClient, list[str]], Reading]] = {
    "list_offsets": _list_offsets,
    "find_coordinators": _find_coordinators,
    "describe": _describe,
    "delete": _delete,
}

if __name__ == "__main__":
    serve(_make, CALLS, lambda: _requests)
