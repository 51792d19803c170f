"""The report in a browser: accessible, quick with 10,000 groups, and harmless whatever the ids are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_kafka_groups.plugins.report_files import MAX_BYTES
from airflow_kafka_groups.report.sections import MOST_BYTES
from airflow_kafka_groups.shown import shortened
from tests.ui.report_scene import group_ids, large_report, large_trend

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = "</script><img src=x onerror=alert(1)>\"'&\u202e\u2028{{x}}"
PHONE, DESK = {"width": 375, "height": 800}, {"width": 1280, "height": 900}
FEW, ALL = 3, None
Opener = Callable[..., "Page"]

_QUICK_SECONDS = 0.3
"""Processor time of one search, sort or filter: 0.07 s were measured, and other programs do not count."""
_TIMES = """async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const took = {};
  const time = async (name, act) => {
    const start = performance.now();
    act();
    await painted();
    took[name] = performance.now() - start;
  };
  const buttons = [...document.querySelectorAll("#explorer button")];
  const press = (text) => time(text, () => buttons.find((button) => button.innerText === text).click());
  const set = (id, value, event) => time(`${id} ${value}`, () => {
    const field = document.getElementById(id);
    field.value = value;
    field.dispatchEvent(new Event(event));
  });
  for (const text of ["Group", "Lag", "Family", "Why", "Next"]) await press(text);
  for (const text of ["report-", "report-0a2", ""]) await set("search", text, "input");
  await set("status", "1", "change");
  return took;
}"""

_FEW_OF_EACH_KIND = """(most) => {
  const values = ["class", "role", "type", "scope", "style", "fill"];
  const counts = (name) => values.includes(name) || name.startsWith("aria-");
  const kind = (element) => JSON.stringify([
    element.tagName,
    [...element.attributes].map(({name, value}) => counts(name) ? [name, value] : name),
    element.textContent.trim() === "",
    [...element.children].map(kind),
  ]);
  for (const parent of document.querySelectorAll("tbody, svg, svg g")) {
    const seen = {};
    for (const child of [...parent.children]) {
      const found = kind(child);
      seen[found] = (seen[found] ?? 0) + 1;
      if (seen[found] > most) child.remove();
    }
  }
  return document.querySelectorAll("*").length;
}"""


@pytest.fixture(scope="module")
def pages(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the pages: a report of 10,000 groups, a hostile one, and the trend; and short ones for axe.

    The time that axe takes grows with the elements, many of which are a chart's points or a table's rows. Short pages
    have every kind of element all the same: each outcome, more rows than one page of the table shows, and charts.
    """
    folder = tmp_path_factory.mktemp("reports")
    found = {
        "report": large_report(10_000),
        "short report": large_report(150, points=9),
        "hostile": large_report(60, ending=EVIL, points=9),
        "plan": large_report(150, runs=False, points=9),
        "trend": large_trend(300),
        "short trend": large_trend(300, points=9),
    }
    for name, html in found.items():
        (folder / f"{name}.html").write_text(html)
    return {name: folder / f"{name}.html" for name in found}


@pytest.fixture
def opened(plain_browser: Browser, pages: dict[str, Path]) -> Iterator[Opener]:
    """Return a function that opens a page; at the end, nothing may have been logged, loaded or asked."""
    contexts: list[Any] = []
    said: list[str] = []

    def open_page(name: str, **how: Any) -> Page:
        context = plain_browser.new_context(**{"viewport": DESK, **how})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: said.append(request.url))
        page.goto(pages[name].as_uri())
        said.remove(pages[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def rows(page: Page) -> list[list[str]]:
    every = "[...document.querySelectorAll('#explorer tbody tr:not(.why)')]"
    found: list[list[str]] = page.evaluate(f"{every}.map((row) => [...row.cells].map((cell) => cell.innerText))")
    return found


@pytest.mark.parametrize(
    ("name", "size", "scheme", "rows"),
    [
        ("report", DESK, "light", FEW),
        ("short report", DESK, "dark", ALL),
        ("short report", PHONE, "light", FEW),
        ("plan", PHONE, "dark", FEW),
        ("hostile", DESK, "light", FEW),
        ("short trend", DESK, "dark", ALL),
        ("short trend", PHONE, "light", ALL),
    ],
)
def test_axe_finds_nothing(opened: Opener, name: str, size: dict[str, int], scheme: str, rows: int | None) -> None:
    """Check every kind of element by all of axe's rules; of rows and points that differ in their text only, a few."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened(name, viewport=size, color_scheme=scheme, bypass_csp=True)  # the page's policy forbids axe-core, too
    for summary in page.locator("summary").all():
        summary.click()
    if rows is not None:
        page.evaluate(_FEW_OF_EACH_KIND, rows)
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found] == []


@pytest.mark.parametrize("name", ["report", "plan", "hostile", "trend"])
def test_a_phone_scrolls_down_only(opened: Opener, name: str) -> None:
    page = opened(name, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_ten_thousand_groups_are_searched_filtered_sorted_and_paged_quickly(opened: Opener) -> None:
    page = opened("report")
    assert "10,000 of 10,000 groups" in page.locator("#explorer").inner_text()
    assert len(rows(page)) == 100
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _processor_seconds(session)
    actions = page.evaluate(_TIMES)
    each = (_processor_seconds(session) - before) / len(actions)
    print(f"{each:.3f} s of processor time for each of {len(actions)} actions")
    assert each < _QUICK_SECONDS


def _processor_seconds(session: Any) -> float:
    found = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def test_what_is_searched_is_found_in_its_order(opened: Opener) -> None:
    page = opened("report")
    ids = group_ids(10_000)
    page.locator("#search").fill("SHARD99")
    wanted = sorted(group_id for group_id in ids if "shard99" in group_id)
    assert f"{len(wanted)} of 10,000 groups" in page.locator("#explorer").inner_text()
    page.get_by_role("button", name="Group", exact=True).click()
    assert [row[0] for row in rows(page)] == wanted[:100]
    page.get_by_role("button", name="Lag").click()
    lags = [int(row[4].replace(",", "")) for row in rows(page)]
    assert lags == sorted(lags, reverse=True)
    assert page.locator("#explorer th[aria-sort=descending]").inner_text().startswith("Lag")
    page.get_by_role("button", name="Lag").click()
    assert [int(row[4].replace(",", "")) for row in rows(page)] == lags[::-1]
    page.locator("#search").fill("nothing of that name")
    assert rows(page) == []


def test_an_id_that_is_cut_in_the_page_is_found_by_all_of_it(plain_browser: Browser, tmp_path: Path) -> None:
    ending = "-𝄞" + "x" * 300
    path = tmp_path / "page.html"
    path.write_text(large_report(40, ending=ending, points=9))
    page = plain_browser.new_page()
    page.goto(path.as_uri())
    for wanted in group_ids(40, ending)[:3]:
        page.locator("#search").fill(wanted)
        assert [row[0] for row in rows(page)] == [shortened(wanted)]
        page.locator("#search").fill(f"{wanted[:-1]}y-is-another-id-that-begins-in-the-same-way")
        assert len(rows(page)) == 1, "what the page does not have may be the same"
        page.locator("#search").fill(wanted[:150] + "another" + wanted[150:])
        assert rows(page) == []
    page.close()


def test_a_family_and_an_owner_lead_to_their_groups(opened: Opener) -> None:
    page = opened("report")
    page.locator("#families").get_by_role("button", name="report-<uuid>").click()
    assert {row[2] for row in rows(page)} == {"report-<uuid>"}
    page.locator("#owners").get_by_role("button", name="payments").click()
    assert {(row[2], row[3]) for row in rows(page)} == {("report-<uuid>", "payments")}
    page.get_by_role("button", name="Next").click()
    assert {(row[2], row[3]) for row in rows(page)} == {("report-<uuid>", "payments")}


def test_the_deleted_groups_that_are_shown_have_a_command_that_restores_them(opened: Opener) -> None:
    page = opened("hostile")
    page.locator("#status").select_option("deleted")
    shown = [row[0] for row in rows(page)]
    command = page.locator(".undo pre").inner_text()
    assert command.startswith("airflow-kafka-groups restore --conn-id CONNECTION --cluster prod-eu")
    assert len(shown) == len(re.findall(r"'\\''", command))  # each id has one quote
    page.locator("#status").select_option("live")
    assert page.locator(".undo pre").count() == 0


def test_hostile_ids_are_text(opened: Opener) -> None:
    page = opened("hostile")
    assert any(EVIL in row[0] for row in page.evaluate("JSON.parse(document.getElementById('data').textContent).rows"))
    assert page.locator("img").count() == 0
    assert "onerror=alert(1)" in page.locator("#explorer tbody").inner_text()


def test_without_scripts_the_groups_are_tables(opened: Opener) -> None:
    page = opened("report", java_script_enabled=False)
    text = page.locator("body").inner_text()
    assert "Kept by the plan 6,470" in text
    assert "The first 200 are shown" in text


def test_the_page_runs_no_other_script(plain_browser: Browser, tmp_path: Path) -> None:
    """Even if a name got out of its quotes, the page's own policy would stop it."""
    path = tmp_path / "page.html"
    path.write_text(large_report(10).replace("<h1>", "<script>document.title = 'evil'</script><h1>", 1))
    page = plain_browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    assert page.title() != "evil"
    assert any("Content Security Policy" in text for text in refused)
    assert page.locator("#explorer .controls").count() == 1
    page.close()


def test_print_shows_the_groups_and_no_controls(opened: Opener) -> None:
    page = opened("report", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert len(rows(page)) == 1_000
    assert page.locator("#explorer .note").inner_text() == "10,000 of 10,000 groups; the first 1,000 are printed"
    assert not page.locator("#explorer .controls").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 38)", "dark text on paper"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(rows(page)) == 100
    assert page.locator("#explorer .note").text_content() == "10,000 of 10,000 groups"


@pytest.mark.parametrize(("count", "ending"), [(50_000, ""), (10_000, "<\u202e" * 100), (500, "𝄞" * 15_000)])
def test_the_page_has_a_bound_whatever_the_ids_are(count: int, ending: str) -> None:
    size = len(large_report(count, ending=ending).encode())
    print(count, size)
    assert size < MOST_BYTES + 1_500_000 < MAX_BYTES
