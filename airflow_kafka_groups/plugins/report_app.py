"""The web app of the report tabs, mounted into Airflow's API server.

Airflow mounts such apps without authentication, so each route requires the permission that Airflow requires for a DAG's
XComs. The pages' Content-Security-Policy forbids loading and sending, and every script but this package's own, whatever
a group's name contains; the sandbox gives that script no origin, so that it reaches neither cookies nor Airflow's API.
A page that leads to others has an origin, and no script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, Response

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.hooks.links import TAB
from airflow_kafka_groups.plugins.report_files import (
    NamedReport,
    cluster_of,
    named_reports,
    newest_by_cluster,
    read_report,
    read_trend,
)
from airflow_kafka_groups.report.fleet import FOLDER as FLEET
from airflow_kafka_groups.report.fleet import report_href
from airflow_kafka_groups.report.html import TREND_LINK
from airflow_kafka_groups.report.page import content_policy, hash_of, render

_TREND_TAB = "The trend over all runs is a tab of the DAG"
_FRAME_STYLE = "html,body,iframe{border:0;display:block;height:100%;margin:0;width:100%}"
_COLOURS = """
"use strict";
const frame = document.querySelector("iframe"), chosen = parent.document.documentElement;
const scheme = () => (parent === window ? "" : `#${chosen.classList.contains("dark") ? "dark" : "light"}`);
const show = () => frame.setAttribute("src", frame.dataset.place + scheme());
const recolour = () => {
  const inner = frame.contentDocument?.location;  // none of a page without an origin
  if (inner) inner.replace(inner.href.split("#")[0] + scheme());
  else show();
};
// The pages cannot leave their frame: what leads to Airflow's own pages is opened as Airflow's own links are.
const lead = (event) => {
  const place = event.target.closest?.("a[target=_top]")?.href;
  if (!place || parent === window || !place.startsWith(`${location.origin}/`)) return;
  event.preventDefault();
  parent.history.pushState({}, "", place);
  parent.dispatchEvent(new PopStateEvent("popstate"));
};
frame.addEventListener("load", () => {
  if (!frame.contentDocument) return;
  frame.contentDocument.addEventListener("click", lead);
  if (frame.contentDocument.location.hash !== scheme()) recolour();
});
new MutationObserver(recolour).observe(chosen, { attributeFilter: ["class"] });
show();
"""
_STYLE_ELEMENT = re.compile(rb"<style>(.*?)</style>", re.S)


def make_app() -> FastAPI:
    """Build the app: the reports of a run, the trends of a DAG, no documentation pages."""
    app = FastAPI(title="Kafka consumer groups: report", docs_url=None, redoc_url=None, openapi_url=None)
    may_read = [Depends(requires_access_dag("GET", DagAccessEntity.XCOM))]
    app.add_api_route(f"/{TAB}/{{place:path}}", show_tab)
    app.add_api_route("/{dag_id}/{run_id}", show_run, dependencies=may_read)
    app.add_api_route("/{dag_id}/{run_id}/{task_id}/{map_index}", show_task, dependencies=may_read)
    app.add_api_route("/{dag_id}", show_trend, dependencies=may_read)
    app.add_api_route("/{dag_id}/trend/{cluster}", show_trend_of, dependencies=may_read)
    return app


def show_tab(place: str) -> Response:
    """Return the frame of a tab: it shows a page of this app in the colours of Airflow's switch.

    It has nothing of a run, and so it requires no permission. The page in it does, and cannot read what is around it.
    """
    # Up to the app: one level for the tab's name, and one for each further part.
    inner = "../" * place.count("/") + "../" + "/".join(quote(part, safe="") for part in place.split("/"))
    frame = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Consumer groups</title>'
        f"<style>{_FRAME_STYLE}</style></head><body>"
        f'<iframe title="Consumer groups" data-place="{escape(inner)}"></iframe><script>{_COLOURS}</script>'
        "</body></html>"
    )
    rules = f"style-src {hash_of(_FRAME_STYLE)}; script-src {hash_of(_COLOURS)}; frame-src 'self'; base-uri 'none'"
    return _answer(frame.encode(), 200, f"default-src 'none'; {rules}; form-action 'none'; frame-ancestors 'self'")


def show_run(dag_id: str, run_id: str) -> Response:
    """Return the run's report; of several the roll-up of a fleet, which links to the others, or a list."""
    reports = named_reports(dag_id, run_id)
    if roll_up := next((report for report in reports if cluster_of(report) == FLEET), None):
        return _report(roll_up, {report_href(report.path): f'href="{_relative(run_id, report)}"' for report in reports})
    if len(reports) > 1:
        # Relative to .../{dag_id}/{run_id}, so that any prefix, e.g. of a proxy, is kept.
        listed = [(_relative(run_id, report), _task_name(report), report.path) for report in reports]
        return message_page("Reports of this run", f"DAG {dag_id}, run {run_id}", 200, listed)
    return _report(reports[0]) if reports else _nothing()


def show_task(dag_id: str, run_id: str, task_id: str, map_index: int) -> Response:
    """Return the report that one task named."""
    for report in named_reports(dag_id, run_id):
        if (report.task_id, report.map_index) == (task_id, map_index):
            return _report(report)
    return _nothing()


def show_trend(dag_id: str) -> Response:
    """Return the trend of the DAG's cluster, or a list if its runs were on several."""
    reports = newest_by_cluster(dag_id)
    if len(reports) > 1:
        links = [(_path(dag_id, "trend", name), name, "") for name in map(cluster_of, reports)]
        return message_page("Trends of this DAG's clusters", f"DAG {dag_id}", 200, links)
    return _trend(reports[0]) if reports else _nothing("this DAG")


def show_trend_of(dag_id: str, cluster: str) -> Response:
    """Return the trend of one of the DAG's clusters."""
    for report in newest_by_cluster(dag_id):
        if cluster_of(report) == cluster:
            return _trend(report)
    return _nothing("this DAG")


def _trend(report: NamedReport) -> Response:
    try:
        return response(read_trend(report), 200)
    except MaintenanceError as exc:
        return message_page("The trend cannot be shown", str(exc), 404)


def _report(report: NamedReport, links: Mapping[str, str] | None = None) -> Response:
    try:
        page = read_report(report)
        # Links to other files of the storage lead nowhere here.
        for found, shown in {TREND_LINK: _TREND_TAB, **(links or {})}.items():
            page = page.replace(found.encode(), shown.encode(), 1)
        return response(page, 200, leads_on=bool(links))
    except MaintenanceError as exc:
        return message_page("The report cannot be shown", str(exc), 404)


def _nothing(of: str = "this run") -> Response:
    text = (
        f"Clean-ups have a report: their plan, approve and report tasks write it, and no task of {of} has "
        "yet. Runs of other DAGs, such as snapshots, have none. Topics that were pruned are in the report of the next "
        "clean-up."
    )
    return message_page("No report in this run", text, 404)


def _relative(run_id: str, report: NamedReport) -> str:
    return _path(run_id, report.task_id, str(report.map_index))


def _path(*parts: str) -> str:
    # "./": otherwise the colons of a run id would make it a URL scheme
    return "./" + "/".join(quote(part, safe="") for part in parts)


def _task_name(report: NamedReport) -> str:
    return report.task_id if report.map_index < 0 else f"{report.task_id} [{report.map_index}]"


def message_page(title: str, text: str, status: int, links: Sequence[tuple[str, str, str]] = ()) -> Response:
    """Return a page of this app.

    :param links: the place, the name and the path of each page that it leads to.
    """
    page = render("message.html.j2", title=title, text=text, links=links)
    return response(page.encode("utf-8", "replace"), status, leads_on=True)


def response(page: bytes, status: int, *, leads_on: bool = False, has_form: bool = False) -> Response:
    """Return a page.

    :param has_form: whether it asks this app by a form, and leads on.
    :param leads_on: whether it links to other pages of this app instead of having a script. The browser sends cookies
        with the request for such a page only where the linking one has an origin.
    """
    style = _STYLE_ELEMENT.search(page)
    form_action = "'self'" if has_form else "'none'"
    rules = content_policy("" if style is None else style[1].decode("utf-8", "replace"), form_action)
    # Never both: a script would have the reader's rights.
    sandbox = "allow-same-origin" if leads_on or has_form else "allow-scripts"
    sandbox += " allow-forms" if has_form else ""
    return _answer(page, status, f"{rules}; frame-ancestors 'self'; sandbox {sandbox}")


def _answer(page: bytes, status: int, rules: str) -> Response:
    headers = {
        "Content-Security-Policy": rules,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return Response(page, status_code=status, media_type="text/html", headers=headers)
