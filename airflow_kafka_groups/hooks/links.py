"""Links to a run's report in Airflow's UI, and the XCom by which a task names its report.

A task that writes a report pushes its path to XCom under ``REPORT_XCOM``. The tab shows only those of its own run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

REPORT_XCOM = "kafka_groups_report"
TAB_ROUTE = "kafka-groups-report"
TREND_ROUTE = "kafka-groups-trend"
"""The routes of the tabs in the UI's URLs."""
TAB = "~tab"
"""The route of their frame in the web app: no DAG has such a name."""


def has_report_tab() -> bool:
    """Return whether Airflow shows reports: ``[kafka_groups] report_tab``, on by default."""
    from airflow.sdk.configuration import conf

    return bool(conf.getboolean("kafka_groups", "report_tab", fallback=True))


def base_path() -> str:
    """Return the URL path that Airflow is served under, without a trailing slash; usually empty."""
    return _base_url().path.rstrip("/")


def _base_url() -> SplitResult:
    from airflow.sdk.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "")


def report_url(dag_id: str, run_id: str) -> str:
    """Return the URL of a run's report tab, without the host."""
    # The UI leaves ":+" unescaped and only highlights the selected tab if the spelling matches.
    return f"{base_path()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}/plugin/{TAB_ROUTE}"


def report_url_of(context: Context) -> str | None:
    """Return the URL of the current run's report tab; ``None`` without a tab or a run."""
    task: Any = context.get("ti")
    if task is None or not has_report_tab():
        return None
    return report_url(task.dag_id, task.run_id)


def absolute_report_url_of(context: Context) -> str | None:
    """Return the same with its host; ``None`` where Airflow does not know its address, too (``base_url``)."""
    base, path = _base_url(), report_url_of(context)
    return f"{base.scheme}://{base.netloc}{path}" if path and base.scheme and base.netloc else None


def push_report_path(context: Context, path: str) -> None:
    """Push the path of a report for the report tab."""
    if (task := context.get("ti")) is not None:
        task.xcom_push(key=REPORT_XCOM, value=path)


class CleanupReportLink(BaseOperatorLink):
    """A link from a task to the report tab of its run."""

    name = "Clean-up report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL of the tab; empty if there is no tab."""
        return report_url(ti_key.dag_id, ti_key.run_id) if has_report_tab() else ""
