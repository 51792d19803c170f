"""The lag of 10,000 groups with 20 partitions each: our operator, and Kafka's own command line on the same groups."""

import asyncio
import statistics
import time
from typing import Any

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from tests.bench.job.steps import Steps, Taken
from tests.bench.stats import ratio
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.tools import consumer_groups
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

TOPICS, PARTITIONS, RECORDS, COMMITTED = 50, 20, 10, 3
ROUNDS = 5
_SCRIPT_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Those of Kafka's own start script."""
_CLI_TIMEOUT_S = 3600.0


def measure_lag(
    cluster: KafkaCluster, steps: Steps, groups: int, *, topics: int = TOPICS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Return ``lag.<groups>.seconds`` (median of tasks in new processes) and ``.ratio_cli``, ours / the tool's.

    :param cluster: should have no other groups: the tool describes them too.
    :param steps: runs the operator.
    :param groups: how many; each has committed in all partitions of one of the topics.
    :param topics: how many.
    :param rounds: how often the operator is run.
    """
    group_ids = _fill(cluster.bootstrap, groups, topics)
    total = groups * PARTITIONS * (RECORDS - COMMITTED)
    samples: list[Taken] = []
    for _ in range(rounds):
        found = steps.task("lag", "airflow_kafka_groups.operators.offsets:ListGroupLagOperator", include=["lag-*"])
        if (found["groups"], found["total_lag"], found["unknown"]) != (groups, total, 0):
            raise LabError(f"the operator measured {found}; the lag is {total}")
        samples.append(steps.taken["lag"])
    name = f"lag.{groups}"
    seconds = statistics.median(sample.seconds for sample in samples)
    taken = _command_line(cluster, groups, total)
    steps.say(f"    kafka-consumer-groups --describe --all-groups: {taken:.1f} s")
    asyncio.run(_remove(cluster.bootstrap, group_ids))
    return {
        f"{name}.seconds": round(seconds, 3),
        f"{name}.all_seconds": [round(sample.seconds, 3) for sample in samples],
        f"{name}.cpu_seconds": round(statistics.median(sample.cpu_seconds or 0 for sample in samples), 3),
        f"{name}.peak_mb": round(max(sample.peak_mb for sample in samples)),
        f"{name}.cli_seconds": round(taken, 2),
        f"{name}.ratio_cli": ratio(seconds, taken),
    }


def _fill(bootstrap: str, groups: int, topics: int) -> list[str]:
    read = [f"lag-{number:02d}" for number in range(topics)]
    create_topics(bootstrap, dict.fromkeys(read, PARTITIONS))
    names = [f"lag-service-{number:05d}" for number in range(groups)]
    for number, topic in enumerate(read):
        produce(bootstrap, {(topic, partition): RECORDS for partition in range(PARTITIONS)}, timeout=300)
        offsets = {(topic, partition): COMMITTED for partition in range(PARTITIONS)}
        seed_groups(bootstrap, names[number::topics], offsets)
    return names


def _command_line(cluster: KafkaCluster, groups: int, total: int) -> float:
    """Return the seconds that Kafka's tool takes, its JVM's start included."""
    began = time.perf_counter()
    asked = ("--describe", "--all-groups", "--timeout", f"{_CLI_TIMEOUT_S * 1000:.0f}")  # its own 5 s are too few
    printed = consumer_groups(cluster, *asked, timeout=_CLI_TIMEOUT_S, options=_SCRIPT_OPTIONS)
    seconds = time.perf_counter() - began
    rows = [line.split() for line in printed.splitlines() if line.startswith("lag-service-")]
    lag = sum(int(row[5]) for row in rows)
    if (len(rows), lag) != (groups * PARTITIONS, total):
        said = f"kafka-consumer-groups printed {len(rows)} rows with a lag of {lag}, not {total}"
        raise LabError(f"{said}; its first words: {printed.strip()[:500]}")
    return seconds


async def _remove(bootstrap: str, group_ids: list[str]) -> None:
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        (await admin.delete_consumer_groups(group_ids)).raise_for_errors()
