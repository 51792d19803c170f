"""By a real spark-submit: what Airflow's kill of a task ends."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from tests.lab.spark.archive import CONF, quick_options

pytestmark = [pytest.mark.spark, pytest.mark.safety, pytest.mark.timeout(300)]

JOB = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
place = Path(sys.argv[1])
place.with_suffix(".pid").write_text(str(os.getpid()))
for number in range(3_000):  # a transform that does its work in Python
    place.write_text(str(number))
    time.sleep(0.05)
"""


def wait_for(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 90
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="whether the driver is there is read from /proc")
def test_the_driver_of_a_killed_task_works_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry would process the same records while the driver's Python goes on, which needs no JVM for that."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / CONF).mkdir()
    options = f"spark.driver.memory 512m\nspark.driver.extraJavaOptions {quick_options()}\nspark.ui.enabled false\n"
    (tmp_path / CONF / "spark-defaults.conf").write_text(options)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    for name, value in {"SPARK_CONF_DIR": str(tmp_path / CONF), "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    place = tmp_path / "work"
    task = KafkaSparkSubmitOperator(
        task_id="t",
        application=str(tmp_path / "job.py"),
        application_args=[str(place)],
        spark={"spark_binary": str(Path(sys.executable).with_name("spark-submit"))},
        kafka="off",
    )
    ended: list[BaseException] = []

    def execute() -> None:
        try:
            task.execute({})
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test looks at it
            ended.append(exc)

    running = threading.Thread(target=execute)
    running.start()
    wait_for(lambda: place.exists() or not running.is_alive())
    assert ended == []
    driver = int(place.with_suffix(".pid").read_text())
    try:
        task.on_kill()
        running.join(60)
        assert len(ended) == 1, "the task fails"
        limit = time.monotonic() + 10
        while is_alive(driver) and time.monotonic() < limit:
            time.sleep(0.05)
        assert not is_alive(driver)
    finally:
        if is_alive(driver):
            os.kill(driver, 9)
