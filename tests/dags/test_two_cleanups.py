"""Two cleanups at once on a real cluster: Kafka elects the one that may delete."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.demo.two_cleanups import Ended, clean_up, connect, wrong
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics, produce
from tests.records import records

pytestmark = pytest.mark.airflow

TOPIC = "two-cleanups"
GROUPS = [f"two-cleanups.{number:02d}" for number in range(20)]
PREFIX = "two-cleanups."


@pytest.fixture(scope="module")
def kafka(kafka41: KafkaCluster) -> str:
    create_topics(kafka41.bootstrap, {TOPIC: 1})
    produce(kafka41.bootstrap, {(TOPIC, 0): 10})
    return kafka41.bootstrap


def both(storage: Path, **how: float) -> list[Ended]:
    """Run both at the same time, each with its own client and event loop."""
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(clean_up, name, GROUPS, storage, **how) for name in ("north", "south")]
        return [run.result() for run in runs]


# Who is to be skipped has to come while the other is at it, on a slow machine too.
@pytest.mark.parametrize(("wait_seconds", "observe_seconds"), [(0.0, 10.0), (120.0, 2.0)], ids=["skipped", "waits"])
def test_one_deletes_and_the_other_is_skipped_or_waits_its_turn(
    kafka: str, tmp_path: Path, wait_seconds: float, observe_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Undone after the test; the prefix keeps this lease apart from that of other deletions on the shared cluster.
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_TWO_CLEANUPS", "")
    connect(kafka, "tests", lease_group_prefix=PREFIX)
    seed_groups(kafka, GROUPS, {(TOPIC, 0): 5})
    ended = both(tmp_path, wait_seconds=wait_seconds, observe_seconds=observe_seconds)
    assert wrong(ended, len(GROUPS), waits=wait_seconds > 0) is None
    assert not set(GROUPS) & set(list_groups(kafka))
    (winner,) = [one for one in ended if one.deleted]
    lease = next(record for record in records(tmp_path) if record["cluster"] == winner.name)["lease"]
    assert lease["group_id"] == f"{PREFIX}airflow-kafka-groups-lease"
    assert f"run {winner.name}" in lease["owner"]
    assert lease["lost"] is None
    assert all(generation > 0 for generation in lease["generations"])
