"""The pages "Kafka groups" in Airflow's own API server: what they show, to whom, and what never reaches the storage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from airflow_kafka_groups.plugins.report_tab import GROUPS_PREFIX, ReportTabPlugin
from airflow_kafka_groups.report.page import HEAD
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import CHANGES, MANIFESTS
from tests.component.plugins.groups_scene import ANN, BOB, DAG, HOSTILE, RUN, api_server, fill, login, take_snapshot
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.conftest import admin, leases  # noqa: F401

CLUSTER = scene.CLUSTER


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with api_server() as app, TestClient(app) as client:
        yield client


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"storage_path": str(tmp_path)}))
    return tmp_path


@pytest.fixture
def planned(admin: FakeAdmin, storage: Path) -> dict[str, Any]:  # noqa: F811
    return fill(admin, storage)


def get(server: Any, path: str = "/", user: str | None = ANN, **query: str) -> Any:
    headers = {"Authorization": f"Bearer {login(user)}"} if user else {}
    return server.get(f"{GROUPS_PREFIX}{path}{'?' + urlencode(query) if query else ''}", headers=headers)


def shown(page: Any) -> list[str]:
    """Return the groups in the table of a page."""
    assert page.status_code == 200, page.text
    return [unescape(found) for found in re.findall(r"<tr><td><a href=\"[^\"]*\">\s*<code><bdi>(.*?)</bdi>", page.text)]


def test_the_clusters_that_somebody_may_see(server: Any, planned: dict[str, Any]) -> None:
    page = get(server)
    assert page.status_code == 200
    assert f'href="./{CLUSTER}"' in page.text
    assert "live 1, stale 4" in page.text
    assert CLUSTER not in get(server, user=BOB).text


@pytest.mark.parametrize("path", ["/", f"/{CLUSTER}", f"/{CLUSTER}/group?id=a"])
def test_nobody_sees_anything_without_a_login(server: Any, planned: dict[str, Any], path: str) -> None:
    assert get(server, path, user=None).status_code == 401


@pytest.mark.parametrize("path", [f"/{CLUSTER}", f"/{CLUSTER}/group?id=a"])
def test_who_may_not_read_the_dag_that_took_the_newest_snapshot_gets_403(
    server: Any, planned: dict[str, Any], storage: Path, path: str
) -> None:
    assert get(server, path, BOB).status_code == 403
    assert get(server, path).status_code == 200
    newest = max((storage / CLUSTER / MANIFESTS).iterdir())
    newest.write_text(json.dumps({**json.loads(newest.read_bytes()), "airflow_dag": "of_another_team"}))
    assert get(server, path).status_code == 403, "asked on each request"


def test_a_snapshot_of_the_command_line_takes_no_right_away_and_gives_none(
    server: Any,
    planned: dict[str, Any],
    storage: Path,
    admin: FakeAdmin,  # noqa: F811
) -> None:
    take_snapshot(storage, None)
    assert get(server, f"/{CLUSTER}").status_code == 200
    take_snapshot(storage, None, "by_hand")
    assert get(server, "/by_hand").status_code == 403


@pytest.mark.parametrize("name", ["nobody", "%2e%2e", "%2e%2e%2fprod", "_journal", "prod%00", "prod%2fplans"])
def test_a_cluster_that_the_storage_does_not_list_looks_like_one_that_is_forbidden(
    server: Any, planned: dict[str, Any], name: str
) -> None:
    assert get(server, f"/{name}").status_code in (403, 404)


def test_search_filters_and_sort(server: Any, planned: dict[str, Any]) -> None:
    assert sorted(shown(get(server, f"/{CLUSTER}"))) == sorted(["a", "live", "report-1", "report-2", HOSTILE])
    assert shown(get(server, f"/{CLUSTER}", search="REPORT")) == ["report-1", "report-2"]
    assert shown(get(server, f"/{CLUSTER}", verdict="live")) == ["live"]
    assert shown(get(server, f"/{CLUSTER}", state="Stable")) == ["live"]
    assert shown(get(server, f"/{CLUSTER}", type="consumer")) == []
    assert shown(get(server, f"/{CLUSTER}", sort="-group"))[:2] == ["report-2", "report-1"]
    assert shown(get(server, f"/{CLUSTER}", sort="nonsense", page="-1")) == shown(get(server, f"/{CLUSTER}"))


def test_pages(server: Any, storage: Path, admin: FakeAdmin) -> None:  # noqa: F811
    fill(admin, storage, more=120)
    assert len(shown(get(server, f"/{CLUSTER}", sort="group"))) == 100
    last = get(server, f"/{CLUSTER}", sort="group", page="2")
    assert len(shown(last)) == 25
    assert "Page 2 of 2" in last.text
    assert shown(get(server, f"/{CLUSTER}", sort="group", page="99999999999")) != []


def test_a_group_has_what_explain_says_and_what_was_done_with_links_to_the_runs(
    server: Any, planned: dict[str, Any]
) -> None:
    page = get(server, f"/{CLUSTER}/group", id="a")
    assert page.status_code == 200
    text = unescape(re.sub(r"<[^>]+>", " ", page.text))
    for said in (
        "last sign of life",
        "last members",
        "because the test says so",
        planned["plan_id"],
        "deleted",
        "restore",
    ):
        assert said in text, said
    assert f'target="_top" href="/dags/restore_group_offsets/runs/{RUN}"' in page.text
    assert page.text.count("<svg role=") >= 1
    assert "Keep it alive" in text
    conf = next(
        json.loads(found)
        for found in map(unescape, re.findall(r"<pre[^>]*>(.*?)</pre>", page.text))
        if "plan_id" in found
    )
    assert conf == {
        "plan_id": planned["plan_id"],
        "group_ids": ["a"],
        "dry_run": True,
        "cluster": CLUSTER,
        "kafka_groups_conn_id": CLUSTER,
    }


def test_what_is_known_of_a_group_is_a_text_for_its_owner(server: Any, planned: dict[str, Any]) -> None:
    texts = map(unescape, re.findall(r"<pre[^>]*>(.*?)</pre>", get(server, f"/{CLUSTER}/group", id="a").text, re.S))
    head, *lines = next(each for each in texts if "of cluster" in each).strip().splitlines()
    assert head == f"Kafka group a of cluster {CLUSTER}"
    assert [line.partition(":")[0] for line in lines] == ["last members", "last sign of life", "verdict", "plan"]
    assert lines[2].endswith("What would change it: a member or a commit")


def test_the_same_facts_as_explain(server: Any, planned: dict[str, Any], storage: Path) -> None:
    from airflow_kafka_groups.change.explain import rows_on_record

    cluster_id = json.loads(next(Layout(storage, CLUSTER).manifests.iterdir()).read_bytes())["kafka_cluster_id"]
    page = unescape(get(server, f"/{CLUSTER}/group", id="live").text)
    for row in rows_on_record(Layout(storage, CLUSTER), cluster_id, "live"):
        assert row.evidence in page
        assert row.change in page


def test_a_name_from_the_cluster_is_inert(server: Any, planned: dict[str, Any]) -> None:
    for page in (get(server, f"/{CLUSTER}"), get(server, f"/{CLUSTER}/group", id=HOSTILE)):
        assert page.status_code == 200
        assert page.text.startswith(HEAD)
        assert "<img" not in page.text
        rules = page.headers["content-security-policy"]
        assert "default-src 'none'" in rules
        assert "allow-scripts" not in rules
        assert "frame-ancestors 'self'" in rules


def test_a_group_that_nothing_names(server: Any, planned: dict[str, Any]) -> None:
    for name in ("nobody", "../../plans", "a\0"):
        assert get(server, f"/{CLUSTER}/group", id=name).status_code == 404


def test_a_page_changes_nothing(server: Any, planned: dict[str, Any], storage: Path) -> None:
    get(server, f"/{CLUSTER}/group", id="a")  # folds what snapshots show, as each decision does
    before = {path: path.read_bytes() for path in storage.rglob("*") if path.is_file()}
    for path in ("/", f"/{CLUSTER}", f"/{CLUSTER}/group?id=a"):
        get(server, path)
    assert {path: path.read_bytes() for path in storage.rglob("*") if path.is_file()} == before
    assert (
        server.post(f"{GROUPS_PREFIX}/{CLUSTER}", headers={"Authorization": f"Bearer {login(ANN)}"}).status_code == 405
    )


def test_records_that_are_damaged_are_named(server: Any, planned: dict[str, Any], storage: Path) -> None:
    (storage / CLUSTER / CHANGES / "20261121T120000Z-00000000-result.json").write_text("{")
    assert get(server, f"/{CLUSTER}/group", id="a").status_code == 200
    body = next((storage / CLUSTER / "plans").glob("*.parquet"))
    body.write_bytes(body.read_bytes()[:-9])
    page = get(server, f"/{CLUSTER}")
    assert page.status_code == 502
    assert planned["plan_id"] in page.text


def test_without_a_storage_or_a_judgement_the_page_says_what_to_do(
    server: Any,
    storage: Path,
    admin: FakeAdmin,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin.groups = {"a": FakeGroup()}
    take_snapshot(storage)
    assert "not judged yet" in get(server).text
    assert "Run the clean-up" in get(server, f"/{CLUSTER}").text
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS")
    page = get(server)
    assert page.status_code == 404
    assert "KAFKA_GROUPS_DEFAULTS" in page.text


def test_the_menu_has_an_entry_whose_frame_shows_the_pages(server: Any) -> None:
    view = next(view for view in ReportTabPlugin().external_views if view["destination"] == "nav")
    frame = server.get(view["href"])
    assert frame.status_code == 200
    assert 'data-place="../"' in frame.text


def test_the_dag_is_in_the_manifest(storage: Path, admin: FakeAdmin) -> None:  # noqa: F811
    admin.groups = {"a": FakeGroup()}
    snapshot_id = take_snapshot(storage)
    assert json.loads(Layout(storage, CLUSTER).manifest(snapshot_id).read_bytes())["airflow_dag"] == DAG
