"""The pages "Kafka groups" in Airflow's menu: clusters, the groups of a cluster, and one group. They change nothing.

Who may read the XComs of the DAG that took a cluster's newest snapshot sees the cluster: Airflow's auth manager is
asked on each request. Names from the cluster are inert, as in a report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
from airflow_kafka_groups.plugins.report_app import message_page, response, show_tab
from airflow_kafka_groups.report.page import render

_NO_STORAGE = (
    "Airflow's configuration names no storage. Set [kafka_groups] storage_path, or the storage_path of "
    "KAFKA_GROUPS_DEFAULTS, for the API server too."
)
_ASKED = ("search", *FILTERS, "sort", "page")
_LONGEST = 1_000


def make_groups_app() -> FastAPI:
    """Build the app: no documentation pages."""
    app = FastAPI(title="Kafka groups", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route(f"/{TAB}/{{place:path}}", show_tab)
    app.add_api_route("/", show_clusters)
    app.add_api_route("/{cluster}", show_groups)
    app.add_api_route("/{cluster}/group", show_group)
    return app


def show_clusters(request: Request, user: GetUserDep) -> Response:
    """Return the clusters that the user may see."""
    try:
        base = site_storage()
        if base is None:
            return message_page("No storage is named", _NO_STORAGE, 404)
        clusters = [cluster for cluster in listed_clusters(base) if _may_see(cluster, request, user)]
    except KafkaGroupsError as error:
        return _failed(error)
    page = render("clusters.html.j2", title="Kafka groups", clusters=clusters, link=_cluster_link)
    return response(page.encode("utf-8", "replace"), 200, leads_on=True)


def _listed(cluster: str, request: Request, user: GetUserDep) -> SeenCluster:
    """Return the cluster of a request. One that the user may not see and one that is not there look the same."""
    try:
        base = site_storage()
        found = None if base is None else listed_cluster(base, cluster)
    except KafkaGroupsError as error:
        raise HTTPException(502, str(error)) from error
    if found is None or not _may_see(found, request, user):
        raise HTTPException(403, "Forbidden")
    return found


ListedCluster = Annotated[SeenCluster, Depends(_listed)]


def show_groups(cluster: ListedCluster, request: Request) -> Response:
    """Return the groups of a cluster: those that the query asks for."""
    asked = {name: value for name in _ASKED if (value := request.query_params.get(name, "")[:_LONGEST])}
    try:
        found = groups_page(cluster.layout, asked)
    except KafkaGroupsError as error:
        return _failed(error)
    if found is None:
        text = f"No snapshot of {cluster.name} is judged yet. Run the clean-up as a dry run: it judges the groups."
        return message_page(cluster.name, text, 404)

    def link(**changes: str) -> str:
        return "?" + urlencode({name: value for name, value in {**asked, "page": "", **changes}.items() if value})

    def sort(name: str) -> str:
        return link(sort=f"-{name}" if asked.get("sort") == name else name)

    facts: dict[str, Any] = {"cluster": cluster, "groups": found, "asked": asked, "filters": FILTERS, "sorts": SORTS}
    page = render("groups.html.j2", has_form=True, title=cluster.name, link=link, sort=sort, of=_group_link, **facts)
    return response(page.encode("utf-8", "replace"), 200, has_form=True)


def show_group(cluster: ListedCluster, request: Request) -> Response:
    """Return what is on record of one group."""
    group_id = request.query_params.get("id", "")
    try:
        facts = group_facts(cluster, group_id)
    except KafkaGroupsError as error:
        return _failed(error)
    if facts is None:
        return message_page("Not on record", "No snapshot, plan or deletion of this cluster names this group.", 404)
    page = render(
        "group.html.j2",
        title=group_id or "(empty id)",
        cluster=cluster,
        group=facts,
        forms=list(_forms(cluster, facts)),
        up=f"../{quote(cluster.name)}",
        run=_run_link,
        lag=lag_of,
    )
    return response(page.encode("utf-8", "replace"), 200, leads_on=True)


def _forms(cluster: SeenCluster, facts: GroupRecords) -> Iterable[tuple[str, str, str]]:
    """Yield the name of each thing to do, the address of the DAG that does it, and the configuration of its run."""
    of_cluster: dict[str, Any] = {"cluster": cluster.name}
    if cluster.name != site_defaults().get("cluster"):
        of_cluster["kafka_groups_conn_id"] = (
            cluster.name
        )  # as folders are named; no run goes to another cluster's brokers
    asked: list[tuple[str, str, Mapping[str, Any]]] = [
        ("Keep it alive", "keep_groups_alive", {"include": [_pattern(facts.group_id)]})
    ]
    if facts.restorable is not None:
        restore = {"plan_id": facts.restorable, "group_ids": [facts.group_id], "dry_run": True}
        asked.append(("Restore its offsets", "restore_group_offsets", restore))
    family = facts.named("family") or facts.group_id
    asked.append(("Plan its family", "cleanup_stale_groups", {"include": [_family(family)], "dry_run": True}))
    for name, dag_id, conf in asked:
        yield name, f"{base_path()}/dags/{dag_id}", json.dumps({**conf, **of_cluster}, ensure_ascii=False)


def _pattern(group_id: str) -> str:
    """Return the pattern that matches this id alone."""
    from re import escape

    return f"re:{escape(group_id)}" if set(group_id) & set("*?[]") or group_id.startswith("re:") else group_id


def _family(name: str) -> str:
    """Return the pattern of a family: what varies is in angle brackets."""
    from re import sub

    return sub(r"<[^<>]*>", "*", name)


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


def _cluster_link(cluster: SeenCluster) -> str:
    return f"./{quote(cluster.name)}"


def _group_link(cluster: SeenCluster, group_id: str) -> str:
    return f"./{quote(cluster.name)}/group?{urlencode({'id': group_id})}"


def _run_link(dag_id: str, run_id: str) -> str:
    return f"{base_path()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}"


def _failed(error: KafkaGroupsError) -> Response:
    return message_page("The page cannot be shown", str(error), 502)
