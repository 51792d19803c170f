"""What a migration takes besides what brokers need: ``python -m tests.bench.migration [GROUPS]``.

50,000 groups with 20 partitions each, of two clusters in memory; the storage is a local folder. Prints the seconds of a
plan by timestamps and of its application, and how many offsets the target was asked for.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from airflow_kafka_groups.change.migrate import MigrateRequest
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, change_offsets
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import FakeGroup
from tests.fakes.mirrors import RecordedAdmin, record

TOPICS, PARTITIONS, RECORDS, LACKING = 50, 20, 100, 10
"""The mirror lacks the first records of each partition, so its offsets are lower."""


def main(arguments: list[str]) -> int:
    """Measure; return the exit code.

    :param arguments: the number of groups. Default: 50,000.
    """
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), int(arguments[0]) if arguments else 50_000))
    return 0


async def measure(base: Path, count: int) -> None:
    every = [TopicPartition(f"topic-{topic}", number) for topic in range(TOPICS) for number in range(PARTITIONS)]
    log = [record(at, at * 1_000, str(at)) for at in range(RECORDS)]
    mirrored = [record(at - LACKING, at * 1_000, str(at)) for at in range(LACKING, RECORDS)]
    groups = {}
    for number in range(count):
        topic, at = number % TOPICS * PARTITIONS, LACKING + number % (RECORDS - LACKING)
        groups[f"service-{number:06d}"] = FakeGroup(dict.fromkeys(every[topic : topic + PARTITIONS], at))
    source = RecordedAdmin("west", dict.fromkeys(every, (0, log, RECORDS)), groups)
    target = RecordedAdmin("east", dict.fromkeys(every, (0, mirrored, RECORDS - LACKING)))
    plan = MigrateRequest(group_ids=[*groups], method="timestamp", source=lambda: source)
    began = time.monotonic()
    await change_offsets(target, Layout(base, "east"), plan, ChangeTerms(dry_run=True))
    planned = time.monotonic() - began
    apply = MigrateRequest(plan_id=plan.made.plan_id, plan_digest=plan.made.digest)
    done = await change_offsets(target, Layout(base, "east"), apply, ChangeTerms(dry_run=False))
    applied = time.monotonic() - began - planned
    moved = sum(each.outcome == "changed" for each in done.results)
    assert moved == count, done.results[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    took = f"plan {planned:.1f} s, application {applied:.1f} s"
    print(f"{count * PARTITIONS:,} offsets: {took}, {peak} MB with the fakes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
