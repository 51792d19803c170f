"""Mapped tasks share out the groups of a real cluster: each group is read exactly once, with one slot or with many."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_env import ROOT
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

pytestmark = pytest.mark.airflow

TOPIC = "shared-out"
GROUPS = [f"shared-out.{number:03d}" for number in range(60)]
SIZE = 7


@pytest.fixture(scope="module")
def bootstrap(kafka41: KafkaCluster) -> str:
    create_topics(kafka41.bootstrap, {TOPIC: 1})
    produce(kafka41.bootstrap, {(TOPIC, 0): 10})
    seed_groups(kafka41.bootstrap, GROUPS, {(TOPIC, 0): 5})
    return kafka41.bootstrap


@pytest.fixture
def params(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    connection = json.dumps({"conn_type": "kafka_groups", "host": bootstrap})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", connection)
    return {
        "kafka_groups_conn_id": "kafka_groups_default",
        "storage_path": str(tmp_path),
        "cluster": "lab",
        "groups_in_a_range": SIZE,
    }


@pytest.fixture(scope="module")
def dag() -> Any:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=str(ROOT / "dags" / "shared_out_snapshot.py"))
    assert bag.import_errors == {}
    return bag.dags["shared_out_snapshot"]


def pieces(storage: Path) -> list[dict[str, Any]]:
    (job,) = (storage / "lab" / "shared").iterdir()
    ranges = json.loads((job / "ranges.json").read_text())["ranges"]
    assert len(list(job.glob("range-*.json"))) == len(ranges)
    return [json.loads(path.read_text()) for path in sorted(job.glob("range-*.json"))]


def require_each_once(found: list[dict[str, Any]]) -> None:
    read = Counter(group for piece in found for group in (*piece["offsets"], *piece["failed"]))
    assert set(read.values()) == {1}
    assert set(read) >= set(GROUPS)
    offsets = {group: where for piece in found for group, where in piece["offsets"].items()}
    assert all(offsets[group] == [[TOPIC, 0, 5]] for group in GROUPS)


def test_with_one_slot_the_first_does_it_all(dag: Any, params: dict[str, Any], tmp_path: Path) -> None:
    run = dag.test(run_conf=params)
    assert run.state == "success", {task.task_id: str(task.state) for task in run.get_task_instances()}
    tasks = [task.map_index for task in run.get_task_instances() if task.task_id == "read_share"]
    assert sorted(tasks) == [0, 1, 2]
    require_each_once(pieces(tmp_path))


def test_with_three_slots_they_share_it_out(dag: Any, params: dict[str, Any], tmp_path: Path) -> None:
    """The tasks' own functions at the same time, without the scheduler between them."""
    job = dag.get_task("cut_ranges").python_callable(params=params)
    read_share = dag.get_task("read_share").partial_kwargs["op_kwargs"]
    assert set(read_share) == {"job"}
    function = dag.get_task("read_share").python_callable
    with ThreadPoolExecutor(3) as pool:
        shares = [run.result() for run in [pool.submit(function, worker, job, params) for worker in (1, 2, 3)]]
    found = pieces(tmp_path)
    require_each_once(found)
    assert sorted(number for share in shares for number in share) == list(range(len(found)))
    assert {piece["worker"] for piece in found} <= {1, 2, 3}
