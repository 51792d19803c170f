"""What waiting costs: a poll over 5,000 groups, 1,000 deferred sensors: ``python -m tests.bench.triggers``.

Three real brokers; the triggers run as in a triggerer: in one event loop, rebuilt from what they serialise to. Writes
build/bench/triggers.json and prints it. Ends with 1 when a bound is broken: polls that grow with the number of groups,
more than one client, latency of 2 intervals or more.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from tests.bench.toolchains import REPOSITORY
from tests.dags.airflow_env import prepare_airflow
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.topics import create_topics, produce

FILE = REPOSITORY / "build" / "bench" / "triggers.json"
TOPIC, PARTITIONS, END = "bench-triggers", 20, 100
POLL_GROUPS, TRIGGERS, INTERVAL, ROUNDS = 5_000, 1_000, 10.0, 5
CONN_ID = "bench"


def main() -> int:
    prepare_airflow()
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"  # each poll logs a line
    found: dict[str, Any] = {"measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "load": os.getloadavg()[0]}
    with KafkaCluster(version="4.1.0", brokers=3, heap_mb=768, full_jit=True) as cluster:
        os.environ[f"AIRFLOW_CONN_{CONN_ID.upper()}"] = json.dumps(
            {"conn_type": "kafka_groups", "host": cluster.bootstrap}
        )
        create_topics(cluster.bootstrap, {TOPIC: PARTITIONS})
        produce(cluster.bootstrap, {(TOPIC, partition): END for partition in range(PARTITIONS)})
        groups = [f"bench-triggers-{number:05d}" for number in range(POLL_GROUPS)]
        behind = {(TOPIC, partition): END - 1 for partition in range(PARTITIONS)}
        seed_groups(cluster.bootstrap, groups, behind)
        found["poll"] = asyncio.run(measure_polls(groups))
        found["triggers"] = asyncio.run(measure_triggers(cluster.bootstrap, groups[:TRIGGERS]))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    broken = check(found)
    for sentence in broken:
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def check(found: Mapping[str, Any]) -> list[str]:
    poll, triggers = found["poll"], found["triggers"]
    broken = []
    if poll["requests"] > poll["requests_of_one_group"] + POLL_GROUPS // 100:
        broken.append(f"a poll over {POLL_GROUPS} groups took {poll['requests']} requests")
    if triggers["clients"] != 1:
        broken.append(f"{TRIGGERS} triggers opened {triggers['clients']} clients")
    if triggers["latency_s"]["max"] >= 2 * INTERVAL:
        broken.append(f"an event came {triggers['latency_s']['max']} s after the fact, polled every {INTERVAL:g} s")
    return broken


async def measure_polls(groups: list[str]) -> dict[str, Any]:
    """Poll as a sensor does: its condition, by a client that is connected, as it is in a triggerer."""
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.kafka.transport.connection import BrokerConnection
    from airflow_kafka_groups.triggers.conditions import LagAtMost

    requests = 0
    send = BrokerConnection.send

    async def counted(*arguments: Any) -> Any:
        nonlocal requests
        requests += 1
        return await send(*arguments)

    BrokerConnection.send = counted  # type: ignore[method-assign,assignment]
    found: dict[str, Any] = {"groups": len(groups), "partitions_a_group": PARTITIONS}
    try:
        async with KafkaGroupsHook(CONN_ID).async_client() as admin:
            for name, of_poll in (("_of_one_group", groups[:1]), ("", groups)):
                condition = LagAtMost(group_ids=tuple(of_poll), total=0)
                await condition.check(admin)
                seconds = []
                for _ in range(ROUNDS):
                    requests, begin = 0, time.perf_counter()
                    result = await condition.check(admin)
                    seconds.append(time.perf_counter() - begin)
                    assert len(result.waiting) == len(of_poll), "every group is one record a partition behind"
                found |= {f"median_s{name}": round(statistics.median(seconds), 4), f"requests{name}": requests}
    finally:
        BrokerConnection.send = send  # type: ignore[method-assign]
    return found


async def measure_triggers(bootstrap: str, groups: list[str]) -> dict[str, Any]:
    """Let a thousand triggers wait, each for a group of its own, and see when they notice that it has caught up."""
    from airflow_kafka_groups.triggers import clients
    from airflow_kafka_groups.triggers.clients import condition_to_json
    from airflow_kafka_groups.triggers.conditions import LagAtMost
    from airflow_kafka_groups.triggers.poll import ConditionTrigger

    opened: list[clients.OpenClient] = []
    opens = clients.OpenClient.__init__

    def counted(self: clients.OpenClient, *arguments: Any) -> None:
        opened.append(self)
        opens(self, *arguments)

    clients.OpenClient.__init__ = counted  # type: ignore[method-assign,assignment]
    noticed: dict[str, float] = {}

    async def wait(group_id: str) -> None:
        condition = condition_to_json(LagAtMost(group_ids=(group_id,), total=0))
        made = ConditionTrigger(kafka_groups_conn_id=CONN_ID, condition=condition, poll_interval=INTERVAL)
        async for event in ConditionTrigger(**made.serialize()[1]).run():
            assert event.payload["status"] == "reached", event.payload
            noticed[group_id] = time.monotonic()

    tasks = [asyncio.create_task(wait(group_id)) for group_id in groups]
    delays: list[float] = []
    ticking = asyncio.create_task(_tick(delays))
    await asyncio.sleep(2.5 * INTERVAL)  # they poll, and nothing is there
    cpu, begin = time.process_time(), time.monotonic()
    await asyncio.sleep(INTERVAL)
    busy = (time.process_time() - cpu) / (time.monotonic() - begin)
    ends = {(TOPIC, partition): END for partition in range(PARTITIONS)}
    await asyncio.to_thread(commit_offsets, bootstrap, {group_id: ends for group_id in groups})
    caught_up = time.monotonic()
    await asyncio.gather(*tasks)
    ticking.cancel()
    clients.OpenClient.__init__ = opens  # type: ignore[method-assign]
    lateness = sorted(max(moment - caught_up, 0.0) for moment in noticed.values())
    return {
        "triggers": len(groups),
        "poll_interval_s": INTERVAL,
        "clients": len(opened),
        "busy_share_of_one_core": round(busy, 3),
        "event_loop_delay_s": {"p99": round(sorted(delays)[int(len(delays) * 0.99)], 3), "max": round(max(delays), 3)},
        "latency_s": {
            "median": round(statistics.median(lateness), 2),
            "p99": round(lateness[int(len(lateness) * 0.99)], 2),
            "max": round(lateness[-1], 2),
        },
    }


async def _tick(delays: list[float]) -> None:
    """Note how late the event loop wakes a task that wants to sleep a twentieth of a second."""
    while True:
        begin = time.monotonic()
        await asyncio.sleep(0.05)
        delays.append(time.monotonic() - begin - 0.05)


if __name__ == "__main__":
    raise SystemExit(main())
