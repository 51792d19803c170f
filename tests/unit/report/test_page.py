"""The templates: what they escape, what they cut, and what they do not leave out in silence."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from jinja2 import UndefinedError

from airflow_kafka_groups.report import page
from airflow_kafka_groups.report.page import HEAD, content_policy, part, render, script

EVIL = "<img src=x onerror=alert(1)>\"'&"
TEMPLATES = [file for file in files(str(page.__package__)).joinpath("templates").iterdir() if file.name.endswith(".j2")]
"""The templates of pages, of their parts, and of mails."""


def message(**facts: Any) -> str:
    return render("message.html.j2", **{"title": "t", "text": "x", "links": [], **facts})


def test_every_value_is_escaped_also_within_an_attribute() -> None:
    shown = message(title=EVIL, text=EVIL, links=[(EVIL, EVIL, EVIL)])
    assert "<img" not in shown
    assert 'href="&lt;img src=x onerror=alert(1)&gt;&#34;&#39;&amp;"' in shown
    assert shown.count("&lt;img") == 6  # the title twice


def test_only_what_this_package_makes_is_taken_as_html() -> None:
    """A value of a cluster that a template calls safe would be run by whoever opens a report."""
    found = {value for file in TEMPLATES for value in re.findall(r"(\w+) *\| *safe\b", file.read_text())}
    assert found == {"head", "style", "script", "data", "drawn"}
    assert not [file.name for file in TEMPLATES if re.search(r"autoescape|Markup", file.read_text())]


def test_a_page_begins_as_a_report_and_the_browser_knows_its_style_and_script() -> None:
    shown = render("message.html.j2", title="t", text="x", links=[], data="{}")
    assert shown.startswith(HEAD)
    (style,) = re.findall(r"<style>(.*?)</style>", shown, re.DOTALL)
    assert content_policy(style).replace("'", "&#39;") in shown
    assert f"<script>{script()}</script>" in shown
    assert "<script" not in message()


def test_a_variable_that_is_missing_is_an_error_and_no_empty_place() -> None:
    with pytest.raises(UndefinedError, match="'links' is undefined"):
        render("message.html.j2", title="t", text="x")


def test_what_a_page_shows_of_a_value() -> None:
    rows: list[tuple[Any, ...]] = [("a", 1_234_567, 0, None), ("x" * 5_000, 1, 1, "y" * 5_000)]
    shown = part("owners", rows, 2, "")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", shown)
    assert cells[:4] == ["<code><bdi>a</bdi></code>", "1,234,567", "0", "-"]
    assert cells[4] == f"<code><bdi>{'x' * 200}… (5,000 characters)</bdi></code>"
    assert cells[7] == f"{'y' * 1_000}… (5,000 characters)"


def test_a_sentence_of_a_message_is_shown_in_full() -> None:
    """An error may name a long path, and its remedy comes last."""
    assert "z" * 5_000 in message(text="z" * 5_000)
