"""Two cleanups at once on a real cluster: Kafka elects the one that may delete."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics, produce
from tests.records import records

pytestmark = pytest.mark.airflow

TOPIC = "two-cleanups"
GROUPS = [f"two-cleanups.{number:02d}" for number in range(20)]
PREFIX = "two-cleanups."
CONN_ID = "kafka_groups_two_cleanups"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The result of one cleanup: ``deleted`` and ``gone`` groups, or why it was ``skipped``."""

    name: str
    deleted: int = 0
    gone: int = 0
    skipped: str = ""
    lease: dict[str, Any] | None = None


def clean_up(
    name: str, group_ids: Sequence[str], storage: Path, *, wait_seconds: float, observe_seconds: float
) -> Ended:
    """Run one cleanup in this process, through the connection ``CONN_ID``; it holds the lease while it observes."""
    from airflow.sdk.exceptions import AirflowSkipException

    from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator

    operator = DeleteGroupsOperator(
        task_id="delete",
        kafka_groups_conn_id=CONN_ID,
        storage_path=str(storage),
        cluster=name,
        group_ids=list(group_ids),
        ignore_missing=True,
        observe_seconds=observe_seconds,
        lease_wait_seconds=wait_seconds,
    )
    context: Any = {"ti": SimpleNamespace(dag_id="cleanup", task_id="delete", try_number=1), "run_id": name}
    try:
        done = operator.execute(context)
    except AirflowSkipException as skip:
        return Ended(name=name, skipped=str(skip))
    return Ended(name=name, deleted=done["counts"]["deleted"], gone=done["counts"]["gone"], lease=done["lease"])


def wrong(ended: Sequence[Ended], groups: int, *, waits: bool) -> str | None:
    """Return the deviation from the expected outcome of two concurrent runs; ``None`` if there is none."""
    winners = [one for one in ended if one.deleted]
    others = [one for one in ended if not one.deleted]
    if [one.deleted for one in winners] != [groups] or len(others) != 1:
        return f"one of them, and only one, should have deleted all {groups} groups: {list(ended)}"
    (winner,), (other,) = winners, others
    if waits:
        return None if other.gone == groups else f"the other should have found all {groups} groups gone: {other}"
    if f"run {winner.name}" not in other.skipped:
        return f"the other should have been skipped, naming {winner.name}: {other}"
    return None


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
    # The prefix keeps this lease apart from that of other deletions on the shared cluster.
    connection = {"conn_type": "kafka_groups", "host": kafka, "extra": {"lease_group_prefix": PREFIX}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
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
