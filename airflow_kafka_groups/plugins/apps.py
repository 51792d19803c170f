"""The web apps in Airflow's API server: the report tabs, and "Kafka groups" in the menu. They change nothing.

Airflow mounts such apps without authentication, so each route requires the permission that Airflow requires for a DAG's
XComs. The pages' Content-Security-Policy forbids loading and sending, and every script but this package's own, whatever
a group's name contains; the sandbox gives that script no origin, so that it reaches neither cookies nor Airflow's API.
A page that leads to others has an origin, and no script.

Who may read the XComs of the DAG that took a cluster's newest snapshot sees the cluster in "Kafka groups": Airflow's
auth manager is asked on each request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request, Response

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.floors import site_defaults
from airflow_kafka_groups.hooks.links import TAB, base_path
from airflow_kafka_groups.plugins.groups_facts import (
    FILTERS,
    SORTS,
    GroupRecords,
    SeenCluster,
    group_facts,
    groups_page,
    lag_of,
    listed_cluster,
    listed_clusters,
    site_storage,
)
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
from airflow_kafka_groups.report.page import content_policy, file_text, hash_of, render

_TREND_TAB = "The trend over all runs is a tab of the DAG"
_FRAME_STYLE = "html,body,iframe{border:0;display:block;height:100%;margin:0;width:100%}"
_COLOURS = file_text("frame.js")
_STYLE_ELEMENT = re.compile(rb"<style>(.*?)</style>", re.S)
_NO_STORAGE = (
    "Airflow's configuration names no storage. Set [kafka_groups] storage_path, or the storage_path of "
    "KAFKA_GROUPS_DEFAULTS, for the API server too."
)
_ASKED = ("search", *FILTERS, "sort", "page")
_LONGEST = 1_000


def make_app() -> FastAPI:
    """Build the app of the tabs: the reports of a run, and the trends of a DAG."""
    app = _new_app("Kafka consumer groups: report", 404)
    may_read = [Depends(requires_access_dag("GET", DagAccessEntity.XCOM))]
    app.add_api_route("/{dag_id}/{run_id}", show_run, dependencies=may_read)
    app.add_api_route("/{dag_id}/{run_id}/{task_id}/{map_index}", show_task, dependencies=may_read)
    app.add_api_route("/{dag_id}", show_trend, dependencies=may_read)
    app.add_api_route("/{dag_id}/trend/{cluster}", show_trend, dependencies=may_read)
    return app


def _new_app(title: str, failed: int) -> FastAPI:
    """Return an app with the frame of its tabs, and a page for what fails, with a status."""
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route(f"/{TAB}/{{place:path}}", show_tab)
    app.add_exception_handler(
        KafkaGroupsError, lambda _, error: message_page("The page cannot be shown", str(error), failed)
    )
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


def show_trend(dag_id: str, cluster: str | None = None) -> Response:
    """Return the trend of one of the DAG's clusters, or a list if its runs were on several."""
    reports = [report for report in newest_by_cluster(dag_id) if cluster in (None, cluster_of(report))]
    if len(reports) > 1:
        links = [(_path(dag_id, "trend", name), name, "") for name in map(cluster_of, reports)]
        return message_page("Trends of this DAG's clusters", f"DAG {dag_id}", 200, links)
    return response(read_trend(reports[0]), 200) if reports else _nothing("this DAG")


def _report(report: NamedReport, links: Mapping[str, str] | None = None) -> Response:
    page = read_report(report)
    # Links to other files of the storage lead nowhere here.
    for found, shown in {TREND_LINK: _TREND_TAB, **(links or {})}.items():
        page = page.replace(found.encode(), shown.encode(), 1)
    return response(page, 200, leads_on=bool(links))


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
    return _page("message.html.j2", status, title=title, text=text, links=links)


def _page(template: str, status: int = 200, *, has_form: bool = False, **facts: Any) -> Response:
    page = render(template, has_form=has_form, **facts).encode("utf-8", "replace")
    return response(page, status, leads_on=True, has_form=has_form)


def response(page: bytes, status: int, *, leads_on: bool = False, has_form: bool = False) -> Response:
    """Return a page.

    :param has_form: whether it asks this app by a form. Such a page leads on.
    :param leads_on: whether it links to other pages of this app instead of having a script. The browser sends cookies
        with the request for such a page only where the linking one has an origin.
    """
    style = _STYLE_ELEMENT.search(page)
    form_action = "'self'" if has_form else "'none'"
    rules = content_policy("" if style is None else style[1].decode("utf-8", "replace"), form_action)
    # Never both: a script would have the reader's rights.
    sandbox = "allow-same-origin" if leads_on else "allow-scripts"
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


def make_groups_app() -> FastAPI:
    """Build the app of the menu's entry: clusters, the groups of a cluster, and one group."""
    app = _new_app("Kafka groups", 502)
    app.add_api_route("/", show_clusters)
    app.add_api_route("/{cluster}", show_groups)
    app.add_api_route("/{cluster}/group", show_group)
    return app


def show_clusters(request: Request, user: GetUserDep) -> Response:
    """Return the clusters that the user may see."""
    base = site_storage()
    if base is None:
        return message_page("No storage is named", _NO_STORAGE, 404)
    clusters = [cluster for cluster in listed_clusters(base) if _may_see(cluster, request, user)]
    return _page("clusters.html.j2", title="Kafka groups", clusters=clusters)


def _listed(cluster: str, request: Request, user: GetUserDep) -> SeenCluster:
    """Return the cluster of a request. One that the user may not see and one that is not there look the same."""
    base = site_storage()
    found = None if base is None else listed_cluster(base, cluster)
    if found is None or not _may_see(found, request, user):
        raise HTTPException(403, "Forbidden")
    return found


ListedCluster = Annotated[SeenCluster, Depends(_listed)]


def show_groups(cluster: ListedCluster, request: Request) -> Response:
    """Return the groups of a cluster: those that the query asks for."""
    asked = {name: value for name in _ASKED if (value := request.query_params.get(name, "")[:_LONGEST])}
    found = groups_page(cluster.layout, asked)
    if found is None:
        text = f"No snapshot of {cluster.name} is judged yet. Run the clean-up as a dry run: it judges the groups."
        return message_page(cluster.name, text, 404)

    def link(**changes: str) -> str:
        return "?" + urlencode({name: value for name, value in {**asked, "page": "", **changes}.items() if value})

    def sort(name: str) -> str:
        return link(sort=f"-{name}" if asked.get("sort") == name else name)

    facts: dict[str, Any] = {"cluster": cluster, "groups": found, "asked": asked, "filters": FILTERS, "sorts": SORTS}
    return _page("groups.html.j2", has_form=True, title=cluster.name, link=link, sort=sort, of=_group_link, **facts)


def show_group(cluster: ListedCluster, request: Request) -> Response:
    """Return what is on record of one group."""
    group_id = request.query_params.get("id", "")
    facts = group_facts(cluster, group_id)
    if facts is None:
        return message_page("Not on record", "No snapshot, plan or deletion of this cluster names this group.", 404)
    links: dict[str, Any] = {"forms": list(_forms(cluster, facts)), "up": f"../{quote(cluster.name)}", "run": _run_link}
    return _page("group.html.j2", title=group_id or "(empty id)", cluster=cluster, group=facts, lag=lag_of, **links)


def _forms(cluster: SeenCluster, facts: GroupRecords) -> Iterable[tuple[str, str, str]]:
    """Yield the name of each thing to do, the address of the DAG that does it, and the configuration of its run."""
    of_cluster: dict[str, Any] = {"cluster": cluster.name}
    if cluster.name != site_defaults().get("cluster"):
        of_cluster["kafka_groups_conn_id"] = cluster.name  # as folders are named: no run goes to another's brokers
    asked: list[tuple[str, str, Mapping[str, Any]]] = [
        ("Keep it alive", "keep_groups_alive", {"include": [_pattern(facts.group_id)]})
    ]
    if facts.restorable is not None:
        restore = {"plan_id": facts.restorable, "group_ids": [facts.group_id], "dry_run": True}
        asked.append(("Restore its offsets", "restore_group_offsets", restore))
    family = re.sub(r"<[^<>]*>", "*", facts.named("family") or facts.group_id)  # what varies is in angle brackets
    asked.append(("Plan its family", "cleanup_stale_groups", {"include": [family], "dry_run": True}))
    for name, dag_id, conf in asked:
        yield name, f"{base_path()}/dags/{dag_id}", json.dumps({**conf, **of_cluster}, ensure_ascii=False)


def _pattern(group_id: str) -> str:
    """Return the pattern that matches this id alone."""
    return f"re:{re.escape(group_id)}" if set(group_id) & set("*?[]") or group_id.startswith("re:") else group_id


def _may_see(cluster: SeenCluster, request: Request, user: GetUserDep) -> bool:
    """Ask Airflow's auth manager. A cluster whose snapshots no DAG took is seen by nobody."""
    if cluster.dag_id is None:
        return False
    try:
        requires_access_dag("GET", DagAccessEntity.XCOM, cluster.dag_id)(request, user)
    except HTTPException as error:
        if error.status_code != 403:
            raise
        return False
    return True


def _group_link(cluster: SeenCluster, group_id: str) -> str:
    return f"./{quote(cluster.name)}/group?{urlencode({'id': group_id})}"


def _run_link(dag_id: str, run_id: str) -> str:
    return f"{base_path()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}"
