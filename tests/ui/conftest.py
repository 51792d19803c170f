"""A browser, an Airflow and a cluster for the tests that click, all of them started once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.lab.chromium import MISSING, find_chromium, headless_browser
from tests.ui.airflow_server import USERS
from tests.ui.pages import STILL
from tests.ui.scene import FOLDER, Scene, ui_scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, StorageState

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
    """Start the browser."""
    with headless_browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def login(browser: Browser, scene: Scene) -> StorageState:
    """Log in as admin by Airflow's own page; give the cookies."""
    context = browser.new_context(base_url=scene.airflow.url)
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto("/")
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(USERS["admin"])
    page.locator("button[type=submit]").click()
    page.get_by_role("link", name="Dags").first.wait_for()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(browser: Browser, login: StorageState, scene: Scene, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Return a page that is logged in; when the test fails, what it showed is in build/ui/failed-*.png."""
    context = browser.new_context(
        base_url=scene.airflow.url,
        storage_state=login,
        viewport={"width": 1280, "height": 900},
        locale="en-US",
        timezone_id="UTC",
    )
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(STILL)
    page = context.new_page()
    failed_before = request.session.testsfailed
    yield page
    if request.session.testsfailed > failed_before:
        page.screenshot(path=FOLDER / f"failed-{request.node.name}.png")
    context.close()
