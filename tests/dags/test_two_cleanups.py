"""Two cleanups at once on a real cluster: Kafka elects the one that may delete."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.runs import connect
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics, produce
from tests.records import records

pytestmark = pytest.mark.airflow

TOPIC = "two-cleanups"
GROUPS = [f"two-cleanups.{number:02d}" for number in range(20)]
PREFIX = "two-cleanups."
CONN_ID = "kafka_groups_two_cleanups"
NAMES = ("north", "south")


def clean_up(name: str, storage: Path, **how: float) -> Any:
    """Clean up in this process, with a client and an event loop of its own; return the result, or why it was skipped.

    It holds the lease while it observes.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator

    scope = {"kafka_groups_conn_id": CONN_ID, "storage_path": str(storage), "cluster": name}
    operator = DeleteGroupsOperator(task_id="delete", group_ids=GROUPS, ignore_missing=True, **scope, **how)  # type: ignore[arg-type]
    context: Any = {"ti": SimpleNamespace(dag_id="cleanup", task_id="delete", try_number=1), "run_id": name}
    try:
        return operator.execute(context)
    except AirflowSkipException as skip:
        return str(skip)


@pytest.fixture(scope="module")
def kafka(kafka41: KafkaCluster) -> str:
    create_topics(kafka41.bootstrap, {TOPIC: 1})
    produce(kafka41.bootstrap, {(TOPIC, 0): 10})
    return kafka41.bootstrap


# Who is to be skipped has to come while the other is at it, on a slow machine too.
@pytest.mark.parametrize(("wait_seconds", "observe_seconds"), [(0.0, 10.0), (120.0, 2.0)], ids=["skipped", "waits"])
def test_one_deletes_and_the_other_is_skipped_or_waits_its_turn(
    kafka: str, tmp_path: Path, wait_seconds: float, observe_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The prefix keeps this lease apart from that of other deletions on the shared cluster.
    connect(monkeypatch, kafka, CONN_ID, extra={"lease_group_prefix": PREFIX})
    seed_groups(kafka, GROUPS, {(TOPIC, 0): 5})
    how = {"lease_wait_seconds": wait_seconds, "observe_seconds": observe_seconds}
    with ThreadPoolExecutor(2) as pool:
        ended = dict(zip(NAMES, pool.map(lambda name: clean_up(name, tmp_path, **how), NAMES), strict=True))
    done = {name: result["counts"] for name, result in ended.items() if not isinstance(result, str)}
    (winner,) = (name for name, counts in done.items() if counts["deleted"])
    assert done[winner]["deleted"] == len(GROUPS)
    (other,) = {*NAMES} - {winner}
    assert done[other]["gone"] == len(GROUPS) if wait_seconds else f"run {winner}" in ended[other]
    assert not set(GROUPS) & set(list_groups(kafka))
    lease = next(record for record in records(tmp_path) if record["cluster"] == winner)["lease"]
    assert lease["group_id"] == f"{PREFIX}airflow-kafka-groups-lease"
    assert f"run {winner}" in lease["owner"]
    assert lease["lost"] is None
    assert all(generation > 0 for generation in lease["generations"])
