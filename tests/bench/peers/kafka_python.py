"""kafka-python as a peer: ``KafkaAdminClient`` with its batched calls.

Best use: ``list_group_offsets`` takes many groups and sends one OffsetFetch to each coordinator in turn (one to each
group before Kafka 3.0); ``describe_groups`` and ``delete_groups`` do likewise. Coordinators stay cached in the client.
Defaults but for the request timeout, which is raised. There is no public call for coordinators.
"""

import sys
from collections.abc import Callable
from typing import Any

from kafka.admin import KafkaAdminClient

from tests.bench.peers.python_peer import CALL_TIMEOUT_S, Reading, Tally, each, serve


def _make() -> Any:
    return KafkaAdminClient(bootstrap_servers=sys.argv[1].split(","), request_timeout_ms=int(CALL_TIMEOUT_S * 1000))


def _list_offsets(admin: Any, group_ids: list[str]) -> Reading:
    fetched = admin.list_group_offsets(group_ids)

    def read(tally: Tally) -> None:
        for offsets in fetched.values():
            tally.groups += 1
            for committed in offsets.values():
                tally.offsets += 1
                tally.checksum += committed.offset

    return read


def _describe(admin: Any, group_ids: list[str]) -> Reading:
    return each((one["error"], one["group_state"] == "Empty") for one in admin.describe_groups(group_ids).values())


def _delete(admin: Any, group_ids: list[str]) -> Reading:
    deleted = admin.delete_groups(group_ids).values()
    return each((None if outcome == "OK" else outcome, True) for outcome in deleted)


CALLS: dict[str, Callable[[Any, list[str]], Reading]] = {
    "list_offsets": _list_offsets,
    "describe": _describe,
    "delete": _delete,
}

if __name__ == "__main__":
    serve(_make, CALLS)
