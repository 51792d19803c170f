"""One Spark session for the whole folder: starting it costs more than most tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark import session as session_of_jobs
from airflow_kafka_groups.spark.requirements import TESTED_SPARK
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.hidden import without_hypothesis
from tests.lab.spark.archive import quick_options
from tests.lab.spark.jars import KAFKA_CLIENTS_VERSIONS, MINOR, connector_jars
from tests.spark.kafka import Submit, write_properties

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # No query of a test runs often enough to earn back the compiler's time. Jobs that are submitted (`clusters`,
    # `test_spark_submit`, Airflow's tests) run generated code, as in production.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each step that is added to a query checks the complete plan, and puts the named subqueries in it into their places
    # again. With this, Spark does so once, when it parses them; `test_verdicts` compares the plans that come out.
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
    # With one compiler a JVM reserves 48 MB for compiled code, throws it out when they are full, and compiles it again.
    # What is planned a few times is interpreted for less long if the compiler begins after a third of the calls.
    "spark.driver.extraJavaOptions": f"{quick_options()} -Xms1g -XX:ReservedCodeCacheSize=240m"
    " -XX:CompileThresholdScaling=0.3",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a version of Spark does not have: 4.0 filters of a Python source, 4.3 the connector."""
    out = [item for item in items if MINOR == "4.0" and "tests/spark/source/" in str(item.path)]
    if MINOR not in KAFKA_CLIENTS_VERSIONS:
        out += [item for item in items if _needs_connector(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def _needs_connector(item: pytest.Item) -> bool:
    by_fixture = {"kafka", "kafka41", "kafka44"}.intersection(getattr(item, "fixturenames", ()))
    return bool(by_fixture) or item.get_closest_marker("connector") is not None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers need this package and its libraries
    builder = SparkSession.builder.master("local[1]").appName("tests")
    jars = ",".join(str(jar) for jar in connector_jars())
    hidden = without_hypothesis(tmp_path_factory.mktemp("hidden"))
    for name, value in {**SETTINGS, "spark.jars": jars, "spark.executorEnv.PYTHONPATH": hidden}.items():
        builder = builder.config(name, value)
    # Jobs are tried on a Spark that they are not tested with for good: each would warn of it.
    vars(session_of_jobs)["TESTED_SPARK"] = (*TESTED_SPARK, MINOR)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def kafka(kafka44: KafkaCluster) -> str:
    """Return the broker of most tests; those that need several use ``kafka41``."""
    return kafka44.bootstrap


@pytest.fixture
def submit(spark: SparkSession, kafka: str, tmp_path: Path, transforms: ModuleType) -> Submit:
    """Run the job ``process_group_backlog`` in the session, on most tests' broker; a function is its transform."""
    from airflow_kafka_groups.spark.jobs.process_group_backlog import parse_arguments, run

    properties = write_properties(tmp_path, kafka)

    def submitted(*arguments: Any) -> dict[str, Any]:
        words = ["--kafka-properties", str(properties)]
        for each in arguments:
            if callable(each):
                transforms.__dict__[each.__name__] = each
            words += ["--transform", f"users_transforms:{each.__name__}"] if callable(each) else [each]
        return run(spark, parse_arguments(words))

    return submitted


@pytest.fixture
def transforms(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a user's module; tests put their functions into it."""
    module = ModuleType("users_transforms")
    monkeypatch.setitem(sys.modules, "users_transforms", module)
    return module
