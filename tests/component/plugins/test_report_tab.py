"""The report tab in Airflow's own API server: who may see what, and what is never shown."""

import base64
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.io import store

from airflow_kafka_groups.hooks.links import REPORT_XCOM, TAB, TAB_ROUTE, TREND_ROUTE, CleanupReportLink, report_url
from airflow_kafka_groups.plugins import report_files
from airflow_kafka_groups.plugins.report_tab import APP_PREFIX, ReportTabPlugin
from airflow_kafka_groups.report.fleet import report_href
from airflow_kafka_groups.report.html import TREND_LINK
from airflow_kafka_groups.report.page import head_of, script
from tests.component.plugins.groups_scene import ANN, BOB, api_server, login
from tests.fakes.refusing_path import RefusingPath

DAG, OTHER = "cleanup", "other_team"
RUN = "manual__2026-11-21T12:00:00+00:00"
NAME = "20261121T120000Z-0a1b2c3d.html"
PAGE = f"{head_of(DAG)}<title>t</title><style>b{{color:red}}</style></head><body>208 groups</body></html>"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with api_server(DAG) as app, TestClient(app) as client:
        yield client


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Return a report where reports lie."""
    path = tmp_path / "prod" / "reports" / NAME
    path.parent.mkdir(parents=True)
    path.write_text(PAGE)
    return path


@pytest.fixture(autouse=True)
def no_xcoms(server: Any) -> Iterator[None]:
    yield
    name_in_xcom([])


_NUMBERS: defaultdict[tuple[str, str], int] = defaultdict(count(1).__next__)
"""A number for each run, none of them twice."""


def name_in_xcom(values: Sequence[Any], *, dag_id: str = DAG, run_id: str = RUN, key: str = REPORT_XCOM) -> None:
    """Write what the tasks t0, t1 … of a run have named, in this order; none takes all away."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, text

    with create_session() as session:
        session.execute(text("PRAGMA foreign_keys=OFF"))  # the runs and task instances are of no interest here
        if not values:
            session.execute(delete(XComModel))
        for number, value in enumerate(values):
            at = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=number)
            place: dict[str, Any] = {
                "dag_run_id": _NUMBERS[dag_id, run_id],
                "dag_id": dag_id,
                "run_id": run_id,
                "task_id": f"t{number}",
            }
            session.add(XComModel(**place, map_index=-1, key=key, value=value, timestamp=at))


def get(server: Any, path: str = f"/{DAG}/{RUN}", user: str | None = ANN, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {login(user)}"} if user else {}
    return server.get(APP_PREFIX + path, headers=headers, **options)


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_who_may_read_the_dags_xcoms_sees_the_report(server: Any, report: Path, prefix: str) -> None:
    name_in_xcom([f"{prefix}{report}"])
    answer = get(server)
    assert (answer.status_code, answer.text) == (200, PAGE)
    assert answer.headers["content-type"].startswith("text/html")


def test_the_browser_may_run_the_packages_script_alone_and_load_and_send_nothing(server: Any, report: Path) -> None:
    report.write_text(PAGE.replace("208 groups", "<script>alert(1)</script>"))
    name_in_xcom([str(report)])
    policy = dict(
        rule.strip().partition(" ")[::2] for rule in get(server).headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    ours = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    assert policy["script-src"] == f"'sha256-{ours}'", "that of the file does not count"
    assert policy["sandbox"] == "allow-scripts", "without an origin: no cookie, no request in the reader's name"
    assert set(policy) == {
        "default-src",
        "script-src",
        "style-src",
        "base-uri",
        "form-action",
        "frame-ancestors",
        "sandbox",
    }
    assert policy["frame-ancestors"] == "'self'"
    assert policy["form-action"] == policy["base-uri"] == "'none'"
    digest = base64.b64encode(hashlib.sha256(b"b{color:red}").digest()).decode()
    assert policy["style-src"] == f"'sha256-{digest}'"


def test_nobody_sees_anything_without_a_login(server: Any, report: Path) -> None:
    name_in_xcom([str(report)])
    for path in (f"/{DAG}/{RUN}", f"/{DAG}/{RUN}/t0/-1"):
        assert get(server, path, user=None).status_code == 401
        wrong = server.get(APP_PREFIX + path, headers={"Authorization": "Bearer x.y.z"})
        assert wrong.status_code in (401, 403)


def test_who_may_not_see_the_dag_sees_no_report(server: Any, report: Path) -> None:
    name_in_xcom([str(report)])
    name_in_xcom([str(report)], dag_id=OTHER)
    for path in (f"/{DAG}/{RUN}", f"/{DAG}/{RUN}/t0/-1"):
        assert get(server, path, user=BOB).status_code == 403
    for dag_id in (OTHER, "~"):
        assert get(server, f"/{dag_id}/{RUN}").status_code == 403
    assert get(server, f"/{OTHER}/{RUN}?dag_id={DAG}").status_code == 403
    assert "208 groups" not in get(server, f"/{DAG}/..%2F{OTHER}/{RUN}").text


def test_a_cookie_is_a_login_too_as_the_tab_needs(server: Any, report: Path) -> None:
    name_in_xcom([str(report)])
    server.cookies.set("_token", login(ANN))
    try:
        assert get(server, user=None).status_code == 200
    finally:
        server.cookies.clear()


@pytest.mark.parametrize(
    "place",
    [
        "/etc/passwd",
        f"/etc/{NAME}",
        "{folder}/reports/passwd.html",
        "{folder}/reports/../secret/reports/" + NAME,
        "{folder}/secret/reports/" + NAME,
        "reports/" + NAME,
        "http://127.0.0.1:1/reports/" + NAME,
        "https://127.0.0.1:1/reports/" + NAME,
        "nosuch://bucket/reports/" + NAME,
        "",
    ],
)
def test_a_task_cannot_name_another_file_of_the_server(server: Any, tmp_path: Path, place: str) -> None:
    """The secret file is called like a report, and lies where reports lie; it does not begin like one."""
    secret = tmp_path / "secret" / "reports" / NAME
    secret.parent.mkdir(parents=True)
    secret.write_text("root:x:0 " + PAGE)
    name_in_xcom([place.format(folder=tmp_path)])
    answer = get(server)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "cannot be shown" in answer.text


@pytest.mark.parametrize("place", ["copies/" + NAME, "reports/mine.html", "reports/../x/reports/" + NAME])
def test_not_even_a_report_is_shown_from_a_place_where_none_is_written(server: Any, tmp_path: Path, place: str) -> None:
    (tmp_path / "reports").mkdir()
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE)
    name_in_xcom([str(path)])
    assert get(server).status_code == 404


@pytest.mark.parametrize("value", [None, 7, {"path": "/x"}, ["/x"], '"unfinished'])
def test_what_is_no_text_names_nothing(server: Any, value: Any) -> None:
    name_in_xcom([value])
    assert "No report" in get(server).text


def test_a_run_without_a_report_says_so(server: Any, report: Path) -> None:
    name_in_xcom([str(report)], key="return_value")
    name_in_xcom([str(report)], run_id="another", key=REPORT_XCOM)
    answer = get(server)
    assert answer.status_code == 404
    assert "no task of this run has yet" in answer.text
    assert "such as snapshots, have none" in answer.text
    assert answer.headers["content-security-policy"].endswith("sandbox allow-same-origin")


def test_a_report_that_is_gone_is_told_from_none(server: Any, report: Path) -> None:
    name_in_xcom([str(report)])
    report.unlink()
    answer = get(server)
    assert answer.status_code == 404
    assert "the API server cannot read" in answer.text


def test_a_report_is_shown_once_whoever_named_it(server: Any, report: Path) -> None:
    name_in_xcom([str(report), json.dumps(str(report))])  # the second as the server's own API stores it
    assert get(server).text == PAGE


def test_several_reports_are_listed_and_lead_to_each(server: Any, report: Path) -> None:
    other = report.parents[2] / "<b>" / "reports" / NAME
    other.parent.mkdir(parents=True)
    other.write_text(PAGE.replace("208", "7"))
    name_in_xcom([str(report), str(other)])
    page = get(server).text
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "./manual__2026-11-21T12%3A00%3A00%2B00%3A00/t1/-1" in page
    assert "7 groups" in get(server, f"/{DAG}/manual__2026-11-21T12%3A00%3A00%2B00%3A00/t1/-1").text
    assert "No report" in get(server, f"/{DAG}/{RUN}/t2/-1").text


def test_the_roll_up_of_a_fleet_is_shown_and_leads_to_the_report_of_each_cluster(server: Any, report: Path) -> None:
    west, roll_up = (report.parents[2] / name / "reports" / NAME for name in ("west", "_fleet"))
    for path in (west, roll_up):
        path.parent.mkdir(parents=True)
    west.write_text(PAGE.replace("208", "7"))
    links = "".join(f"<a {report_href(str(path))}>report</a>" for path in (report, west))
    roll_up.write_text(PAGE.replace("208 groups", f"2 clusters {links}"))
    name_in_xcom([str(report), str(west), str(roll_up)])
    page = get(server).text
    assert "2 clusters" in page
    assert "../" not in page
    # With an origin and without scripts: from a page without an origin, the browser asks for the next without cookies.
    assert get(server).headers["content-security-policy"].endswith("sandbox allow-same-origin")
    found = re.findall(r'href="\./([^"]*)"', page)
    assert ["7 groups" in get(server, f"/{DAG}/{link}").text for link in found] == [False, True]
    west.with_name("trend.html").write_text(PAGE)
    assert "_fleet" not in get(server, f"/{DAG}").text, "a roll-up has no trend"


def test_the_trend_of_a_dag_is_the_page_beside_its_newest_report(server: Any, report: Path) -> None:
    assert "no task of this DAG has yet" in get(server, f"/{DAG}").text
    name_in_xcom([str(report)], run_id="yesterday")
    assert "There is no file" in get(server, f"/{DAG}").text
    report.with_name("trend.html").write_text(PAGE.replace("208 groups", "90 runs"))
    assert "90 runs" in get(server, f"/{DAG}").text
    assert (
        get(server, f"/{DAG}", user=BOB).status_code == get(server, f"/{DAG}/trend/prod", user=BOB).status_code == 403
    )
    assert get(server, f"/{DAG}", user=None).status_code == 401


def test_a_trend_is_read_only_where_reports_are_and_begins_as_one(server: Any, report: Path, tmp_path: Path) -> None:
    report.with_name("trend.html").write_text("root:x:0")
    name_in_xcom([str(report)])
    assert "is not a report of this package" in get(server, f"/{DAG}").text
    name_in_xcom([])
    for place in ("elsewhere/" + NAME, "reports/../secret/reports/" + NAME, "reports/mine.html"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("trend.html").write_text(PAGE)
        name_in_xcom([str(path)])
        assert get(server, f"/{DAG}").status_code == 404
        assert get(server, f"/{DAG}/trend/{path.parent.parent.name}").status_code == 404
        name_in_xcom([])


def test_the_trends_of_several_clusters_are_listed_and_lead_to_each(server: Any, report: Path) -> None:
    other = report.parents[2] / "<b>" / "reports" / NAME
    other.parent.mkdir(parents=True)
    other.write_text(PAGE)
    for path, text in ((report, "first"), (other, "second")):
        path.with_name("trend.html").write_text(PAGE.replace("208 groups", text))
    name_in_xcom([str(report), str(other)])
    page = get(server, f"/{DAG}").text
    assert (f"./{DAG}/trend/prod" in page, f"./{DAG}/trend/%3Cb%3E" in page, "<b>" in page) == (True, True, False)
    assert "first" in get(server, f"/{DAG}/trend/prod").text
    assert "second" in get(server, f"/{DAG}/trend/%3Cb%3E").text
    assert get(server, f"/{DAG}/trend/staging").status_code == 404


@pytest.mark.parametrize("head", [head_of(OTHER), head_of(None), None])
def test_what_another_dag_wrote_is_not_shown_whoever_names_it(server: Any, report: Path, head: str | None) -> None:
    """An XCom of one's own DAG showed the trend of any cluster: a made-up report beside it was enough."""
    report.unlink() if head is None else report.write_text(PAGE.replace(head_of(DAG), head))
    report.with_name("trend.html").write_text(PAGE.replace("208 groups", "90 runs"))
    name_in_xcom([str(report)])
    for path in (f"/{DAG}/{RUN}", f"/{DAG}/{RUN}/t0/-1", f"/{DAG}", f"/{DAG}/trend/prod"):
        answer = get(server, path)
        assert answer.status_code == 404
        assert "cannot be shown" in answer.text
        assert ("There is no file" if head is None else f"not written by a run of the DAG {DAG}") in answer.text
        assert "208 groups" not in answer.text
        assert "90 runs" not in answer.text


def test_a_pipe_does_not_hold_the_server(server: Any, report: Path) -> None:
    report.unlink()
    os.mkfifo(report)
    name_in_xcom([str(report)])
    answer = get(server)
    assert (answer.status_code, "a device or a pipe" in answer.text) == (404, True)


def test_a_link_to_the_trends_file_is_a_hint_in_the_tab(server: Any, report: Path) -> None:
    report.write_text(PAGE.replace("208 groups", TREND_LINK))
    name_in_xcom([str(report)])
    text = get(server).text
    assert "tab of the DAG" in text
    assert "trend.html" not in text


def test_one_setting_takes_tab_app_and_links_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    key: Any = SimpleNamespace(dag_id=DAG, run_id=RUN)
    operator: Any = None
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__REPORT_TAB", "False")
    plugin = ReportTabPlugin()
    assert (plugin.fastapi_apps, plugin.external_views) == ([], [])
    assert CleanupReportLink().get_link(operator, ti_key=key) == ""
    monkeypatch.delenv("AIRFLOW__KAFKA_GROUPS__REPORT_TAB")
    of_run, of_dag, _ = plugin.external_views
    assert (of_run["destination"], of_run["url_route"]) == ("dag_run", TAB_ROUTE)
    assert (of_dag["destination"], of_dag["url_route"]) == ("dag", TREND_ROUTE)
    assert CleanupReportLink().get_link(operator, ti_key=key) == report_url(DAG, RUN)


def test_addresses_stay_below_the_path_that_airflow_is_served_under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    views = ReportTabPlugin().external_views
    assert [view["href"] for view in views] == [
        "/airflow/kafka-groups-report/~tab/{DAG_ID}/{RUN_ID}",
        "/airflow/kafka-groups-report/~tab/{DAG_ID}",
        "/airflow/kafka-groups/~tab/",
    ]
    assert report_url("a/b", RUN) == (
        "/airflow/dags/a%2Fb/runs/manual__2026-11-21T12:00:00+00:00/plugin/kafka-groups-report"
    )


def test_airflow_finds_the_plugin_and_has_nothing_to_say_against_it(server: Any) -> None:
    from airflow import plugins_manager

    plugins, errors = plugins_manager._get_plugins()
    assert "kafka_groups_report" in [plugin.name for plugin in plugins]
    assert not [source for source in errors if "kafka_groups" in source]


def test_a_report_that_is_named_in_an_object_store_is_shown(
    server: Any, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where XComs are in an object store, Airflow's database has the path of the XCom and not that of the report."""
    from airflow.providers.common.io.xcom import backend

    for function in (backend._get_base_path, backend._get_compression, backend._get_threshold):
        function.cache_clear()
        monkeypatch.setattr(backend, function.__name__, function.__wrapped__)
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", f"{backend.__name__}.XComObjectStorageBackend")
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH", f"file://{tmp_path}/xcoms")
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD", "0")
    stored = backend.XComObjectStorageBackend.serialize_value(str(report), dag_id=DAG, run_id="r", task_id="t0")
    assert str(report) not in str(stored)
    name_in_xcom([stored, {"__classname__": "builtins.object", "__version__": 1}])
    answer = get(server)
    assert (answer.status_code, answer.text) == (200, PAGE)


def test_the_frame_of_a_tab_has_nothing_of_a_run_and_runs_its_own_script_alone(server: Any) -> None:
    place = f"{DAG}/manual__2026-11-21T12%3A00%3A00%2B00%3A00"
    answer = get(server, f"/{TAB}/{place}", user=None)
    assert f'data-place="../../{place}"' in answer.text
    (ran,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(ran.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'; frame-src 'self'" in answer.headers["content-security-policy"]
    hostile = get(server, f"/{TAB}/%22%3E%3Cscript%3Ealert(1)/x", user=None).text
    assert 'data-place="../../%22%3E%3Cscript%3Ealert%281%29/x"' in hostile


def test_a_storage_whose_error_is_its_library_s_own_is_an_error_of_the_report(
    server: Any, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of botocore where credentials expired is no OSError: the page would be an internal error of Airflow."""
    name_in_xcom([str(report)])
    monkeypatch.setattr(report_files, "open_path", lambda *_: RefusingPath(tmp_path, "read_bytes"))
    answer = get(server)
    assert (answer.status_code, "AccessDenied" in answer.text) == (404, True)


def test_a_storage_that_cannot_be_opened_is_no_report_that_is_gone(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/keys/mine")

    monkeypatch.setattr("airflow.sdk.io.get_fs", fail)
    monkeypatch.setattr(store, "_STORE_CACHE", {})
    name_in_xcom([f"s3://bucket/prod/reports/{NAME}"])
    assert "could not be opened: FileNotFoundError" in get(server).text
