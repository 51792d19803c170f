"""A Python on executors that is missing, or lacks packages, is told before a job reads anything."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.application import JOBS
from airflow_kafka_groups.spark.session import preflight
from airflow_kafka_groups.spark.session.preflight import prepare_kafka
from tests.lab.spark.standalone import ARROW, bare_python

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, and put its workers' Python back afterwards."""
    before = spark.sparkContext.pythonExec
    yield spark
    spark.sparkContext.pythonExec = before


def test_packages_that_the_executors_lack_are_named(session: SparkSession, tmp_path: Path) -> None:
    session.sparkContext.pythonExec = str(bare_python(tmp_path / "empty", ()))
    said = (
        f"the executors' Python ({tmp_path}/empty/bin/python on {platform.node()}) has no pyarrow and no numpy: "
        "install pyarrow and numpy there, or set PYSPARK_PYTHON to a Python that has them (a packed one: --archives)"
    )
    with pytest.raises(JobError, match=re.escape(said)):
        prepare_kafka(session, arrow_on_workers=True)
    session.sparkContext.pythonExec = str(bare_python(tmp_path / "arrow", ARROW))
    assert prepare_kafka(session, arrow_on_workers=True) == []


def test_a_python_that_the_executors_do_not_have_fails_what_needs_it_and_warns_what_may(session: SparkSession) -> None:
    session.sparkContext.pythonExec = "/no/python3"
    here = ".".join(platform.python_version_tuple()[:2])
    said = rf'Python does not run on the executors: .*Cannot run program "/no/python3".*a Python {here}, the driver'
    with pytest.raises(JobError, match=said):
        prepare_kafka(session, arrow_on_workers=True)
    (warning,) = prepare_kafka(session, python_on_workers=True)
    assert re.match(said, warning)
    assert warning.endswith("Until then no Python function runs on the executors")


def test_another_minor_version_on_the_executors_is_told(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.sparkContext, "pythonVer", "3.9")  # what the driver tells the workers of itself
    with pytest.raises(JobError, match=r"Python does not run on the executors: .*PYTHON_VERSION_MISMATCH.*3\.9"):
        prepare_kafka(session, arrow_on_workers=True)


def test_packages_that_the_driver_lacks_are_named(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DRIVER_PACKAGES", ("pandas", "no_such_package"))
    said = f"the driver's Python ({sys.executable}) has no no_such_package: install pandas, no_such_package there"
    with pytest.raises(JobError, match=re.escape(said)):
        prepare_kafka(session, arrow_on_workers=True)


def test_a_driver_without_numpy_and_pyarrow_starts_every_job() -> None:
    program = "import sys\nfor name in ('numpy', 'pandas', 'pyarrow'):\n    sys.modules[name] = None\n"
    program += "".join(f"import airflow_kafka_groups.spark.jobs.{job}\n" for job in JOBS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
