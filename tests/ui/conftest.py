"""A browser, an Airflow and a cluster for the tests that click, all of them started once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.lab.servers.chromium import MISSING, find_chromium, headless_browser
from tests.lab.workload.topics import Repeated
from tests.ui.airflow_server import USERS
from tests.ui.pages import STILL, rest
from tests.ui.scene import FOLDER, Scene, ui_scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def chromium() -> str:
    """Find the system's browser. Without one the tests are skipped; where CI is set they fail."""
    found = find_chromium()
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING)
    if found is None:
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="module")
def plain_browser(chromium: str) -> Iterator[Browser]:
    """Start a browser without a cluster and an Airflow."""
    with headless_browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def scene(chromium: str) -> Iterator[Scene]:
    """Start the cluster and Airflow; not before it is known that there is a browser."""
    # The storage's path is to be seen in the pictures of the docs.
    with (
        TemporaryDirectory(prefix="kafka-groups-", dir="/tmp") as storage,
        # While a test waits for a run, its page and Airflow's server would else work as much as the run does.
        ui_scene(FOLDER / "tests", Path(storage), refresh_s=10) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def browser(chromium: str, scene: Scene) -> Iterator[Browser]:
    with headless_browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def login(browser: Browser, scene: Scene) -> Iterator[BrowserContext]:
    """Log in as admin by Airflow's own page, which stays open: to load it takes two to four seconds of a processor."""
    context = browser.new_context(
        base_url=scene.airflow.url, viewport={"width": 1280, "height": 900}, locale="en-US", timezone_id="UTC"
    )
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(STILL)
    page = context.new_page()
    page.goto("/")
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(USERS["admin"])
    page.locator("button[type=submit]").click()
    page.get_by_role("link", name="Dags").first.wait_for()
    yield context
    context.close()


@pytest.fixture
def page(login: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Return a page that is logged in: that of the test before, or a new one if that test failed.

    When the test fails, what it showed is in build/ui/failed-*.png.
    """
    if Repeated.test:
        close_pages(login)
    if login.pages:
        page = login.pages[0]
        rest(page)  # until another page is there, that before it is shown: not one of the test before, with its texts
    else:
        page = login.new_page()
    failed_before = request.session.testsfailed
    yield page
    if request.session.testsfailed > failed_before:
        page.screenshot(path=FOLDER / f"failed-{request.node.name}.png")
        close_pages(login)


def close_pages(context: BrowserContext) -> None:
    for page in context.pages:
        page.close()
