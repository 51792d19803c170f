"""The pages "Kafka groups" in a browser: they are searched by a form, lead to each other, and are accessible."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_kafka_groups.hooks.links import TAB
from airflow_kafka_groups.plugins.report_tab import GROUPS_PREFIX, GROUPS_ROUTE
from tests.component.plugins.groups_scene import ANN, BOB, HOSTILE, api_server, fill, login
from tests.lab.machine.ports import free_ports
from tests.ui.scene import FOLDER
from tests.unit.operators import scene
from tests.unit.operators.conftest import admin, leases  # noqa: F401

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.fakes.admin import FakeAdmin

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
CLUSTER = scene.CLUSTER
Opener = Callable[..., "Page"]
PAGES = {
    "clusters": "/",
    "groups": f"/{CLUSTER}",
    "found": f"/{CLUSTER}?search=report&sort=-lag",
    "group": f"/{CLUSTER}/group?id=a",
}


@pytest.fixture(scope="module")
def address(chromium: str) -> Iterator[str]:
    """Serve Airflow's API server from this process."""
    import uvicorn

    (port,) = free_ports(1)
    with api_server() as app:
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def opened(
    plain_browser: Browser,
    address: str,
    admin: FakeAdmin,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Opener]:
    """Return a function that opens a page as a user; at the end no script may have run, and nothing may have failed."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"storage_path": str(tmp_path)}))
    fill(admin, tmp_path, more=120)
    contexts: list[Any] = []
    said: list[str] = []

    def open_page(path: str, *, user: str = ANN, **how: Any) -> Page:
        context = plain_browser.new_context(**{"viewport": SIZES["desk"], **how})
        context.add_cookies([{"name": "_token", "value": login(user), "url": address}])
        contexts.append(context)
        page = context.new_page()
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{address}{GROUPS_PREFIX}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def test_from_the_clusters_to_a_group_by_the_form(opened: Opener) -> None:
    page = opened("/")
    page.get_by_role("link", name=CLUSTER).click()
    assert "125 of 125 groups" in page.get_by_role("status").inner_text()
    page.get_by_role("link", name="Next").click()
    assert page.locator("#groups tbody tr").count() == 25
    page.get_by_label("Search").fill("report-")
    page.get_by_label("Verdict").select_option("stale")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("2 of 125 groups").wait_for()
    page.get_by_role("link", name="Group", exact=True).click()
    assert page.locator("#groups tbody tr").count() == 2
    page.get_by_role("link", name="report-2").click()
    assert page.locator("h1").inner_text() == "report-2"
    page.get_by_role("link", name=CLUSTER).click()
    page.get_by_text("125 of 125 groups").wait_for()


def test_the_form_of_a_restore_is_filled_in(opened: Opener) -> None:
    page = opened(PAGES["group"])
    place = page.get_by_role("link", name="Restore its offsets")
    assert place.get_attribute("href") == "/dags/restore_group_offsets"
    conf = json.loads(page.locator("h3:has-text('Restore') + pre").inner_text())
    assert conf["group_ids"] == ["a"]
    assert conf["dry_run"] is True


def test_who_may_see_nothing_gets_403(opened: Opener) -> None:
    page = opened("/", user=BOB)
    assert CLUSTER not in page.inner_text("table, p.none")
    for path in (PAGES["groups"], PAGES["group"]):
        answer = page.request.get(page.url.rstrip("/") + path)
        assert answer.status == 403


def test_a_hostile_name_is_a_name(opened: Opener) -> None:
    page = opened(PAGES["groups"])
    page.get_by_label("Search").fill(HOSTILE)
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=HOSTILE).click()
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("img").count() == 0


def test_the_frame_keeps_the_pages_and_gives_them_airflows_colours(opened: Opener) -> None:
    page = opened(f"/{TAB}/")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name=CLUSTER).click()
    frame.get_by_text("125 of 125 groups").wait_for()
    assert page.url.endswith(f"/{TAB}/")


def test_airflows_menu_leads_to_the_pages_and_the_pages_to_airflows_runs_and_forms(
    opened: Opener, address: str
) -> None:
    page = opened("/")
    page.goto(f"{address}/plugin/{GROUPS_ROUTE}")
    pages = page.frame_locator("iframe").frame_locator("iframe")
    pages.get_by_role("link", name=CLUSTER).click()
    pages.get_by_role("link", name="a", exact=True).click()
    page.evaluate("document.documentElement.className = 'dark'")
    pages.locator("html:has(#dark:target)").wait_for()
    page.screenshot(path=FOLDER / "groups-in-airflow.png")
    pages.get_by_role("link", name="restore_group_offsets").click()
    page.wait_for_url(f"{address}/dags/restore_group_offsets/runs/**")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("name", list(PAGES))
def test_each_page_is_accessible_and_fits(opened: Opener, name: str, size: str, colours: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(PAGES[name], viewport=SIZES[size], color_scheme=colours, bypass_csp=True)
    page.screenshot(path=FOLDER / f"groups-{name}-{size}-{colours}.png", full_page=size == "desk")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found] == []
