"""Checks of what is installed on this machine: Airflow and its settings, Java, pyspark, and the Kafka connector."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from airflow_kafka_groups.doctor.finding import Report
from airflow_kafka_groups.spark.requirements import (
    KAFKA_CONNECTOR,
    OLDEST_JAVA,
    TESTED_SPARK,
    TESTED_WITH,
    find_java,
    unequal_client,
)

_OLDEST = (3, 2)
_EXTRAS = (
    (
        "airflow.providers.apache.spark",
        "apache-airflow-providers-apache-spark",
        "groups are judged without it, and other Spark jobs cannot be submitted",
    ),
    ("airflow.providers.standard.operators.hitl", "apache-airflow-providers-standard", "approvals cannot be requested"),
)
_ELSEWHERE = "Nothing, where Spark runs on other machines, or where clean-ups run without it."


def examine_airflow(report: Report) -> None:
    """Check Airflow's version, providers and the settings that matter here."""
    try:
        found = version("apache-airflow-core")
    except PackageNotFoundError:
        report.warn("Airflow", "Airflow is not installed here.", "Nothing, if only the command line is used.")
        return
    release = tuple(int(part) for part in found.split(".")[:2])
    if release < _OLDEST:
        text = f"Airflow {found} is older than what this package supports."
        report.fail("Airflow", text, "Use Airflow 3.2 or later.")
    else:
        report.ok("Airflow", f"Airflow {found} is installed.")
    for module, package, consequence in _EXTRAS:
        if not _installed(module):
            report.warn("providers", f"{package} is missing: {consequence}.", f"pip install {package}")
    _examine_test_button(report)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _examine_test_button(report: Report) -> None:
    from airflow.configuration import conf

    if conf.get("core", "test_connection", fallback="Disabled").lower() == "enabled":
        report.ok("Test button", "Connections can be tested in the UI.")
    else:
        text = "Connections cannot be tested in the UI ([core] test_connection)."
        report.warn("Test button", text, "Set AIRFLOW__CORE__TEST_CONNECTION=Enabled, or use this command.")


def executors_elsewhere() -> list[str]:
    """Return the executors of this Airflow that run tasks on other machines; none where Airflow is not installed."""
    if not _installed("airflow.configuration"):
        return []
    from airflow.configuration import conf

    named = re.split(r"[,;]", conf.get("core", "executor", fallback=""))
    names = [re.split(r"[.:=]", each.strip())[-1] for each in named]
    return [name for name in names if name not in ("", "LocalExecutor")]


def examine_spark(report: Report) -> None:
    """Check Java, pyspark and the connector on this machine."""
    _examine_java(report)
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        text = "pyspark is not installed here: groups are judged without it, and other Spark jobs cannot run locally."
        report.warn("pyspark", text, f"pip install 'airflow-kafka-groups[spark]'. {_ELSEWHERE}")
        return
    if problem := unequal_client():
        report.warn("pyspark", f"{problem}.", f"Install pyspark-client=={found}, then pyspark=={found} again.")
    elif found.rpartition(".")[0] in TESTED_SPARK:
        report.ok("pyspark", f"pyspark {found} is installed.")
    else:
        text = f"pyspark {found} is installed; the jobs are tested with {TESTED_WITH}."
        report.warn("pyspark", text, "Check the first results, or install a tested version.")
    _examine_connector(found, report)


def _examine_java(report: Report) -> None:
    java, home = find_java(os.environ), os.environ.get("JAVA_HOME")
    remedy = f"Install Java {OLDEST_JAVA} or later, and put it on the PATH or set JAVA_HOME. {_ELSEWHERE}"
    if java is None:
        where = f"JAVA_HOME is {home}, without a java in it" if home else "no java is on the PATH"
        report.warn("Java", f"There is no Java here: {where}.", remedy)
        return
    # The program that Spark would start, asked for its version.
    try:
        said = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        report.fail("Java", f"{java} cannot be started: {error}.", remedy)
        return
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if match is None:
        report.unknown("Java", f"{java} does not tell its version.", remedy)
        return
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])  # Java 8 calls itself 1.8
    if major < OLDEST_JAVA:
        report.fail("Java", f"{java} is Java {major}.", remedy)
    else:
        report.ok("Java", f"{java} is Java {major}.")


def _examine_connector(spark_version: str, report: Report) -> None:
    spec = find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), str(Path(spec.origin).parent) if spec and spec.origin else None]
    artifact = KAFKA_CONNECTOR.partition(":")[2]
    found = [jar for home in homes if home for jar in Path(home, "jars").glob(f"{artifact}-*.jar")]
    packages = f"{KAFKA_CONNECTOR}:{spark_version}"
    if f"{artifact}-{spark_version}.jar" in {jar.name for jar in found}:
        report.ok("Kafka connector", f"{artifact}-{spark_version}.jar is installed.")
        return
    if found:
        text = f"{found[0].name} is installed, which is not of Spark {spark_version}."
        report.warn("Kafka connector", text, f"Install {packages} in its place.")
        return
    text = (
        "Spark's Kafka connector is not installed here, so the log of commits is not read unless spark_conf names it."
    )
    report.warn("Kafka connector", text, f"Set spark.jars.packages to {packages} in spark_conf.")
