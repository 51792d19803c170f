"""The reports named by the tasks of a run, and their content. No path comes from a request.

XComs can be written by more people than may read the API server's files. Therefore a file is shown only if it is in a
``reports`` folder, has a report's file name and begins as every report of this DAG does. A trend is shown beside one.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace

from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.hooks.links import REPORT_XCOM
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.report.fleet import FOLDER as FLEET
from airflow_kafka_groups.report.page import HEAD, dag_of
from airflow_kafka_groups.storage.json_files import read_named
from airflow_kafka_groups.storage.layout import check_id
from airflow_kafka_groups.storage.paths import REPORTS, TREND_PAGE

log = logging.getLogger(__name__)

MAX_BYTES = 20_000_000
MAX_REPORTS = 4_000
"""Maximum number of tasks to read, the newest first: those of a run over 1,024 clusters, which Airflow maps over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReport:
    """A report named by a task."""

    dag_id: str
    task_id: str
    map_index: int
    path: str


def named_reports(dag_id: str, run_id: str | None = None) -> list[NamedReport]:
    """Return the reports named by tasks of a run, each file once (for the last task that named it).

    :param run_id: the run. Default: the newest of any run.
    """
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    of_run = () if run_id is None else (XComModel.run_id == run_id,)
    query = (
        select(XComModel.task_id, XComModel.map_index, XComModel.value)
        .where(XComModel.dag_id == dag_id, XComModel.key == REPORT_XCOM, *of_run)
        .order_by(XComModel.timestamp.desc())
        .limit(MAX_REPORTS)
    )
    with create_session() as session:
        rows = session.execute(query).all()
    found: dict[str, NamedReport] = {}
    for task_id, map_index, value in rows:
        path = _text(value)
        if path is not None and path not in found:
            found[path] = NamedReport(dag_id=dag_id, task_id=str(task_id), map_index=int(map_index), path=path)
    return list(found.values())


def read_report(named: NamedReport) -> bytes:
    """Read a report.

    Raises ``MaintenanceError`` if the file is not a report or cannot be read.
    """
    page = _read(named.path, named.path)
    if dag_of(page) != named.dag_id:  # whoever writes an XCom of a DAG may name any file
        raise MaintenanceError(f"{named.path} was not written by a run of the DAG {named.dag_id}")
    return page


def read_trend(named: NamedReport) -> bytes:
    """Read the trend page beside a report.

    Raises ``MaintenanceError`` if the file is not such a page or cannot be read, or no run of the DAG wrote the report.
    """
    read_report(named)
    return _read(named.path, str(named.path).rpartition("/")[0] + f"/{TREND_PAGE}")


def newest_by_cluster(dag_id: str) -> list[NamedReport]:
    """Return the newest report of each cluster that runs of a DAG were on, sorted by cluster."""
    found: dict[str, NamedReport] = {}
    for report in named_reports(dag_id):
        try:
            check_place(report.path)
        except ConfigurationError:
            continue
        if (cluster := cluster_of(report)) != FLEET:  # a roll-up has no trend
            found.setdefault(cluster, report)
    return [found[name] for name in sorted(found)]


def cluster_of(report: NamedReport) -> str:
    """Return the name of a report's cluster: the folder above that of the reports."""
    return PurePosixPath(report.path).parent.parent.name


def _read(report: str, place: str) -> bytes:
    """Read a page. A task names a report; where that may lie, the other page may lie, too."""
    try:
        check_place(report)
        content = read_named(open_path("report", place), "the page", MAX_BYTES, MaintenanceError)
    except (ValueError, ConfigurationError) as exc:
        raise MaintenanceError(f"The report {place} cannot be read: {exc}") from exc
    if content is None:
        remedy = "It was removed, or is on a worker's disk that the API server cannot read"
        raise MaintenanceError(f"There is no file {place}. {remedy}")
    if not content.startswith(HEAD.encode()):
        raise MaintenanceError(f"{place} is not a report of this package")
    return content


def check_place(text: str) -> None:
    """Raise ``ConfigurationError`` for a path or URL that ``Layout.report()`` does not produce."""
    path = PurePosixPath(text)
    check_id("report", path.name.removesuffix(".html"))
    if path.suffix != ".html" or path.parent.name != REPORTS or ".." in path.parts:
        raise ConfigurationError("report", text, "must be in a folder named 'reports'")


def _text(value: object) -> str | None:
    """Return the string of an XCom: workers store it as it is, or in a site's XCom backend, Airflow's API as JSON."""
    text = _in_backend(value) if isinstance(value, str) else None
    if isinstance(text, str) and text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError:
            return None
    return text if isinstance(text, str) else None


def _in_backend(value: str) -> object:
    """Return what the database's string stands for: a backend may have stored there where the XCom is.

    Only strings: others could name a class for Airflow to build.
    """
    from airflow.sdk.bases.xcom import BaseXCom
    from airflow.sdk.execution_time.xcom import resolve_xcom_backend

    backend = resolve_xcom_backend()  # type: ignore[no-untyped-call]  # Airflow's own
    if backend is BaseXCom:
        return value
    try:
        return backend.deserialize_value(SimpleNamespace(value=value))
    except Exception:  # a backend is anybody's code
        log.warning("A report's XCom cannot be read", exc_info=True)
        return None
