"""Airflow's version, providers and settings."""

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from airflow_kafka_groups.doctor import airflow_settings
from airflow_kafka_groups.doctor.airflow_settings import examine_airflow
from airflow_kafka_groups.doctor.finding import Report, Status


def found() -> dict[str, Status]:
    report = Report()
    examine_airflow(report)
    return {finding.check: finding.status for finding in report.findings}


@pytest.mark.parametrize(("setting", "status"), [("Enabled", Status.OK), ("Disabled", Status.WARNING)])
def test_the_setting_of_the_test_button(setting: str, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__TEST_CONNECTION", setting)
    assert found() == {"Airflow": Status.OK, "Test button": status}


@pytest.mark.parametrize(("version", "status"), [("3.1.6", Status.FAILED), ("3.2.0", Status.OK), ("3.10.0", Status.OK)])
def test_an_airflow_that_is_too_old(version: str, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_settings, "version", lambda package: version)
    assert found()["Airflow"] is status


def test_missing_providers_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_settings, "_EXTRAS", (("no.such.package", "such-a-package", "nothing works"),))
    assert found()["providers"] is Status.WARNING


def test_a_worker_without_the_spark_provider_is_told_what_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_settings, "_installed", lambda module: "spark" not in module)
    report = Report()
    examine_airflow(report)
    (missing,) = (finding for finding in report.findings if finding.check == "providers")
    assert "groups are judged without it" in missing.text


def test_without_airflow_the_command_line_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> Any:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(airflow_settings, "version", missing)
    assert found() == {"Airflow": Status.WARNING}
