"""Where a run's report is seen in Airflow's UI, and how a task names the report it wrote.

A task that writes a report pushes its path to XCom under ``REPORT_XCOM``. The report tab shows what the tasks of that
very run have named, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

REPORT_XCOM = "kafka_groups_report"
TAB_ROUTE = "kafka-groups-report"
"""The tab's place in the UI's addresses."""


def has_report_tab() -> bool:
    """Say whether Airflow shows reports: ``[kafka_groups] report_tab``, on by default."""
    from airflow.sdk.configuration import conf

    return bool(conf.getboolean("kafka_groups", "report_tab", fallback=True))


def base_path() -> str:
    """Give the path that Airflow is served under, without a slash at the end: mostly empty."""
    from airflow.sdk.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def report_url(dag_id: str, run_id: str) -> str:
    """Give the address of a run's report tab, without the host."""
    # ":+" stay as the UI itself writes them: with another spelling it does not mark the tab as the chosen one.
    return f"{base_path()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}/plugin/{TAB_ROUTE}"


def report_url_of(context: Context) -> str | None:
    """Give the address of the report tab of the run at work; ``None`` when there is no tab, or no run."""
    task: Any = context.get("ti")
    if task is None or not has_report_tab():
        return None
    return report_url(task.dag_id, task.run_id)


def name_report(context: Context, path: str) -> None:
    """Say where this task has written a report, for the report tab."""
    if (task := context.get("ti")) is not None:
        task.xcom_push(key=REPORT_XCOM, value=path)


class CleanupReportLink(BaseOperatorLink):
    """Lead from a task to the report tab of its run."""

    name = "Clean-up report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Give the tab's address; empty when there is no tab."""
        return report_url(ti_key.dag_id, ti_key.run_id) if has_report_tab() else ""
