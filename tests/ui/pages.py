"""What people click in Airflow's UI, as functions of a Playwright page. Nothing here knows what is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.ui.scene import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Locator, Page


STILL = """if (window === top) addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }";
  document.head.append(style);
});"""
"""A script of each page: without animations, an open page of Airflow's takes 2 % of a processor instead of 17 %."""


def visit(page: Page, address: str) -> None:
    """Open a page of Airflow's. Where one is open already, do as its own links do: nothing is loaded again."""
    if not page.url.startswith("http"):
        page.goto(address)
        return
    page.evaluate(
        "(address) => { history.pushState({}, '', address); dispatchEvent(new PopStateEvent('popstate')); }", address
    )


def picture(page: Page, name: str, *, height: int | None = None) -> None:
    """Keep what the page shows, in build/ui.

    :param height: of the part at the top that is kept. Default: all that is seen.
    """
    seen = page.viewport_size
    clip = {"x": 0.0, "y": 0.0, "width": float(seen["width"]), "height": float(height)} if seen and height else None
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled", caret="hide", clip=clip)  # type: ignore[arg-type]


def picture_of(part: Locator, name: str) -> None:
    part.screenshot(path=FOLDER / f"{name}.png", animations="disabled", caret="hide")


def open_new_connection(page: Page, conn_id: str, conn_type: str) -> Locator:
    """Open the form of a new connection of a type; give the dialog."""
    visit(page, "/connections")
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog")
    form.locator("input[name=connection_id]").fill(conn_id)
    form.get_by_role("combobox").first.click()
    page.keyboard.type(conn_type)
    page.get_by_role("option", name=conn_type, exact=True).click()
    form.locator("input[name=host]").wait_for()
    return form


def open_section(form: Locator, name: str) -> None:
    form.get_by_role("button", name=name, exact=True).click()


def choose(form: Locator, field: str, value: str) -> None:
    hidden = f"xpath=.//input[@name='element_{field}']/ancestor::*[.//input[@role='combobox']][1]"
    form.locator(hidden).get_by_role("combobox").click()
    form.page.get_by_role("option", name=value, exact=True).click()


def save(form: Locator) -> None:
    form.get_by_role("button", name="Save").click()
    form.wait_for(state="hidden")


def test_of_connection(page: Page, conn_id: str) -> str:
    """Press a connection's Test button; give what it says."""
    row = page.get_by_role("row").filter(has_text=conn_id)
    row.get_by_role("button", name="Test Connection").click()
    said = page.locator("[data-scope=toast][data-part=root]").filter(has_text="Test Connection").last
    said.wait_for()
    return said.inner_text()


def change_password(page: Page, conn_id: str, password: str) -> None:
    page.get_by_role("row").filter(has_text=conn_id).get_by_role("button", name="Edit Connection").click()
    form = page.get_by_role("dialog")
    form.locator("input[name=password]").fill(password)
    save(form)
    page.get_by_role("row").filter(has_text=conn_id).wait_for()


def open_trigger_form(page: Page, dag_id: str) -> Locator:
    """Open a DAG's form; give the dialog."""
    rest(page)  # until the DAG's page is there, that before it is shown: without a button of another DAG
    visit(page, f"/dags/{dag_id}")
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_role("dialog")
    form.get_by_test_id("trigger-dag-submit").wait_for()
    return form


def switch(form: Locator, field: str) -> None:
    form.locator("label").filter(has=form.page.locator(f"input[name=element_{field}]")).click()


def is_on(form: Locator, field: str) -> bool:
    return form.locator(f"input[name=element_{field}]").is_checked()


def trigger(form: Locator) -> str:
    form.get_by_test_id("trigger-dag-submit").click()
    form.page.wait_for_url(re.compile(r"/runs/[^/]+$"))
    return form.page.url


def rest(page: Page) -> None:
    """Go to a quiet page of Airflow's: as long as a run goes on, its own is drawn, and asks for news, all the time."""
    visit(page, "/providers")
    page.get_by_text("apache-airflow-providers-standard").first.wait_for()


def open_question(page: Page, run: str) -> None:
    """Open the question of a run that asks somebody."""
    visit(page, f"{run}/tasks/approve")
    page.get_by_role("link", name="Required Action").click()
    page.get_by_text(re.compile(r"\d+ (groups?|topics?)\b")).first.wait_for()
    page.get_by_text("Awaiting Input").first.wait_for()


def fill(page: Page, field: str, text: str) -> None:
    page.locator(f"[name=element_{field}]").fill(text)


def report_in_tab(page: Page) -> FrameLocator:
    frame = page.frame_locator("iframe").frame_locator("iframe")  # the first one chooses the colours
    frame.locator("h1").wait_for()
    return frame
