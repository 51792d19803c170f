"""Airflow, Java, pyspark and the connector on this machine."""

import stat
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.doctor import installed
from airflow_kafka_groups.doctor.finding import Finding, Report, Status
from airflow_kafka_groups.doctor.installed import examine_airflow, examine_spark
from airflow_kafka_groups.spark import requirements


def found(examine: Callable[[Report], None] = examine_spark) -> dict[str, Finding]:
    report = Report()
    examine(report)
    return {finding.check: finding for finding in report.findings}


def of_airflow() -> dict[str, Status]:
    return {name: finding.status for name, finding in found(examine_airflow).items()}


def missing(package: str) -> Any:
    raise PackageNotFoundError(package)


def java_home(folder: Path, says: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ('openjdk version "17.0.9" 2023-10-17', Status.OK),
        ('openjdk version "21" 2023-09-19', Status.OK),
        ('java version "1.8.0_392"', Status.FAILED),
        ('openjdk version "11.0.21"', Status.FAILED),
        ("what?", Status.UNKNOWN),
    ],
)
def test_the_version_of_java_is_read(
    says: str, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, says))
    assert found()["Java"].status is status


def test_without_java_the_remedy_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (found()["Java"].status, "JAVA_HOME" in found()["Java"].text) == (Status.WARNING, True)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Install Java 17" in found()["Java"].remedy


@pytest.mark.parametrize(
    ("version", "status"),
    [("4.2.0", Status.OK), ("4.0.2", Status.OK), ("4.20.1", Status.WARNING), ("3.5.1", Status.WARNING)],
)
def test_a_pyspark_that_is_not_tested_is_a_warning(
    version: str, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "version", lambda package: version)
    monkeypatch.setattr(requirements, "version", lambda package: version)
    assert found()["pyspark"].status is status


def test_a_client_of_another_version_whose_files_replace_pyspark_s_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's Spark provider brings it, and the resolver takes its newest version."""
    versions = {"pyspark": "4.1.1", "pyspark-client": "4.2.0"}
    monkeypatch.setattr(installed, "version", versions.__getitem__)
    monkeypatch.setattr(requirements, "version", versions.__getitem__)
    said = found()["pyspark"]
    assert (said.status, "pyspark 4.1.1 and pyspark-client 4.2.0 overwrite" in said.text) == (Status.WARNING, True)
    versions["pyspark-client"] = "4.1.1"
    assert found()["pyspark"].status is Status.OK


def test_without_pyspark_nothing_more_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", missing)
    assert found()["pyspark"].status is Status.WARNING
    assert "Kafka connector" not in found()


def test_the_connector_is_looked_for_in_sparks_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(installed, "version", lambda package: "4.2.0")
    without = found()["Kafka connector"]
    assert (without.status, "spark-sql-kafka-0-10_2.13:4.2.0" in without.remedy) == (Status.WARNING, True)
    (tmp_path / "jars").mkdir()
    for release, status in (("3.5.1", Status.WARNING), ("4.2.0", Status.OK)):
        (tmp_path / "jars" / f"spark-sql-kafka-0-10_2.13-{release}.jar").touch()
        assert found()["Kafka connector"].status is status


def test_a_java_that_answers_in_another_encoding_ends_no_other_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options that a site sets are in the answer, e.g. a path in Latin-1: the doctor ended with a traceback."""
    java = Path(java_home(tmp_path, "")) / "bin" / "java"
    java.write_bytes(b"#!/bin/sh\necho 'JAVA_TOOL_OPTIONS: -Da=M\xfcller; openjdk version \"17.0.9\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert found()["Java"].status is Status.OK
    assert "pyspark" in found()


@pytest.mark.parametrize(("setting", "status"), [("Enabled", Status.OK), ("Disabled", Status.WARNING)])
def test_the_setting_of_the_test_button(setting: str, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__TEST_CONNECTION", setting)
    assert of_airflow() == {"Airflow": Status.OK, "Test button": status}


@pytest.mark.parametrize(("version", "status"), [("3.1.6", Status.FAILED), ("3.2.0", Status.OK), ("3.10.0", Status.OK)])
def test_an_airflow_that_is_too_old(version: str, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda package: version)
    assert of_airflow()["Airflow"] is status


def test_missing_providers_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_EXTRAS", (("no.such.package", "such-a-package", "nothing works"),))
    assert of_airflow()["providers"] is Status.WARNING


def test_a_worker_without_the_spark_provider_is_told_what_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_installed", lambda module: "spark" not in module)
    assert "groups are judged without it" in found(examine_airflow)["providers"].text


def test_without_airflow_the_command_line_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", missing)
    assert of_airflow() == {"Airflow": Status.WARNING}
