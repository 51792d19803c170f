"""The pages: their templates and words, and the policy by which a browser runs no script but this package's.

A page loads nothing and sends nothing, opened from a disk as well as in Airflow. The one script that it may run is that
of this package, which the browser knows by its SHA-256.

Templates escape every value, because a group id can be any string. Only parts of pages, which are ``Markup``, and what
a template calls ``safe`` stay as they are: the style, the script, its data and the charts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from html import escape, unescape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from airflow_kafka_groups.shown import shortened

if TYPE_CHECKING:
    from jinja2 import Environment


SHOWN = 200
"""The maximum number of table rows; the others are counted and are in the files."""
_WORDS = {"by_rule": "kept by a rule", "over_cap": "over the cap", "notice": "notice period"}


def words_of(name: str) -> str:
    """Return a verdict or an outcome as people read it."""
    return _WORDS.get(name, name.replace("_", " "))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words, sorted by name."""
    return ", ".join(f"{words_of(name)} {count:,}" for name, count in sorted(counts.items()))


def duration(seconds: float | None) -> str:
    """Return seconds in the unit that fits."""
    if seconds is None:
        return "-"
    for below, unit, name in ((120.0, 1.0, "s"), (7_200.0, 60.0, "min"), (172_800.0, 3_600.0, "h")):
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.1f} days"


HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="airflow-kafka-groups">'
)
"""The beginning of every report, by which a report is recognized."""
_DAG = '<meta name="airflow-dag" content="'
_LONGEST_TEXT = 1_000


def head_of(dag_id: str | None) -> str:
    """Return the beginning of a page that a DAG's run wrote; ``None`` for a page of the command line."""
    return f'{HEAD}{_DAG}{escape(dag_id)}">' if dag_id else HEAD


def dag_of(page: bytes) -> str | None:
    """Return the DAG whose run wrote a page; ``None`` for a page that none wrote."""
    before, found, rest = page.partition(f"{HEAD}{_DAG}".encode())
    return unescape(rest.partition(b'"')[0].decode("utf-8", "replace")) if found and not before else None


def render(template: str, *, dag_id: str | None = None, has_form: bool = False, **facts: Any) -> str:
    """Return a page, which is a string like any other: it is no part of another page.

    :param dag_id: the DAG whose runs show it. Default: none.
    :param has_form: whether it asks its own server, by a form. Default false.
    :param facts: its variables: plain values, and parts of the page as ``Markup``.
    """
    if has_form:
        facts["policy"] = content_policy(file_text("style.css"), form_action="'self'")
    return _environment().get_template(template).render(facts, head=head_of(dag_id))


def part(name: str, *args: Any) -> Markup:
    """Return a part of a page: what a macro of ``sections.html.j2`` makes of its arguments."""
    made: Markup = getattr(_environment().get_template("sections.html.j2").module, name)(*args)
    return made


@cache
def script() -> str:
    """Return the script of the table of all groups."""
    return file_text("groups_table.js")


def content_policy(style: str, form_action: str = "'none'") -> str:
    """Return the Content-Security-Policy of a page.

    :param style: the page's style; no other is allowed.
    :param form_action: whom its forms may ask. Default: it has none.
    """
    return (
        f"default-src 'none'; style-src {hash_of(style)}; script-src {hash_of(script())}; base-uri 'none'; "
        f"form-action {form_action}"
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"counted": counted, "duration": duration, "words": words_of}
    made.filters |= {"short": shortened, "parsed": datetime.fromisoformat}
    style = file_text("style.css")
    made.globals |= {"SHOWN": SHOWN, "policy": content_policy(style), "style": style, "script": script()}
    return made


def _shown(value: Any) -> Any:
    """Return a value as pages show it: a number with separators, none as a dash, and a string cut to 1,000 characters.

    A template that writes ``| e`` has a string in full.
    """
    if isinstance(value, str):
        return value if isinstance(value, Markup) else shortened(value, _LONGEST_TEXT)
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else value


def file_text(name: str) -> str:
    """Return a style or a script."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def hash_of(text: str) -> str:
    """Return what a Content-Security-Policy calls a style or a script."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
