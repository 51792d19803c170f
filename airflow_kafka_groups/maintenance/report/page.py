"""The frame of a page: its head, its style, its script, and the policy by which a browser runs nothing else.

A page loads nothing and sends nothing, opened from a disk as well as in Airflow. The one script that it may run is that
of this package, which the browser knows by its SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files

from airflow_kafka_groups.maintenance.report.style import STYLE

HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="airflow-kafka-groups">'
)
"""The beginning of every report, by which a report is recognized."""


@cache
def script() -> str:
    """Return the script of the table of all groups."""
    return files(__package__).joinpath("explorer", "groups_table.js").read_text("utf-8")


def render_page(title: str, body: str, data: str = "") -> str:
    """Return a page.

    :param title: its title, a string.
    :param body: the content, as HTML.
    :param data: what the script reads, as JSON without ``<``. Default: a page without a script.
    """
    rules = content_policy(STYLE)
    program = f'<script type="application/json" id="data">{data}</script><script>{script()}</script>' if data else ""
    return (
        f'{HEAD}<meta http-equiv="Content-Security-Policy" content="{escape(rules)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main>{program}</body></html>\n"
    )


def content_policy(style: str) -> str:
    """Return the Content-Security-Policy of a page.

    :param style: the page's style; no other is allowed.
    """
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script())}; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
