"""The benchmark of the job, small: it runs every step on real brokers and checks what each one did."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.job import report, step
from tests.bench.job.groups import PARTITIONS, RECORDS, TOPIC
from tests.bench.job.lag import measure_lag
from tests.bench.job.steps import Steps
from tests.bench.job.whole import run_job
from tests.demo.airflow_runs import connections
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics, produce

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]


class InThisProcess(Steps):
    """Steps without the seconds in which each process imports Airflow."""

    def run(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(json.dumps(step.answer(json.loads(json.dumps(order)))))
        return answer


def test_the_job_passes_with_every_figure(
    kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(kafka41.bootstrap, {TOPIC: PARTITIONS})
    produce(kafka41.bootstrap, {(TOPIC, partition): RECORDS for partition in range(PARTITIONS)})
    for name, value in connections(kafka41.bootstrap).items():
        monkeypatch.setenv(name, value)
    flat = report.flatten(300, run_job(InThisProcess(kafka41.bootstrap, tmp_path, print), 300, judge="reference"))
    steps = [name for name in report.STEPS if name != "judge"]
    assert all(flat[f"job.300.{name}_seconds"] > 0 for name in steps)
    assert flat["job.300.passed"] is True
    assert not [*tmp_path.glob("storage*")], "nothing is left"


def test_lag_is_that_of_the_command_line(kafka41: KafkaCluster, tmp_path: Path) -> None:
    flat = measure_lag(kafka41, Steps(kafka41.bootstrap, tmp_path, print), 50, topics=2, rounds=1)
    assert 0 < flat["lag.50.ratio_cli"] == pytest.approx(flat["lag.50.seconds"] / flat["lag.50.cli_seconds"], rel=0.1)
