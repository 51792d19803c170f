"""Reports that the page in Airflow reads from a storage."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.io import store

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.plugins import report_files
from airflow_kafka_groups.plugins.report_files import NamedReport, read_report
from tests.fakes.refusing_path import RefusingPath

PLACE = "s3://bucket/prod/reports/20260301T120001Z-0c6d3c13.html"


def test_a_storage_whose_error_is_its_library_s_own_is_an_error_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of botocore where credentials expired is no OSError: the page would be an internal error of Airflow."""
    monkeypatch.setattr(report_files, "open_path", lambda *_: RefusingPath(tmp_path, "read_bytes"))
    with pytest.raises(MaintenanceError, match="AccessDenied"):
        read_report(NamedReport(dag_id="d", task_id="report", map_index=-1, path=PLACE))


def test_a_report_that_is_gone_is_said_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_files, "open_path", lambda *_: RefusingPath(tmp_path / "gone.html"))
    with pytest.raises(MaintenanceError, match="There is no file"):
        read_report(NamedReport(dag_id="d", task_id="report", map_index=-1, path=PLACE))


def test_a_storage_that_cannot_be_opened_is_no_report_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/keys/mine")

    monkeypatch.setattr("airflow.sdk.io.get_fs", fail)
    monkeypatch.setattr(store, "_STORE_CACHE", {})
    with pytest.raises(MaintenanceError, match=r"reports/\S+ could not be opened: FileNotFoundError"):
        read_report(NamedReport(dag_id="d", task_id="report", map_index=-1, path=PLACE))
