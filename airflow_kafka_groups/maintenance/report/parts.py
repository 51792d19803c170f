"""The parts of a report's page: sections, tables, and everything from the cluster as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape

from airflow_kafka_groups.maintenance.shown import shortened

SHOWN = 200
"""The maximum number of table rows; the others are counted and are in the files."""
_LONGEST_TEXT = 1_000
_WORDS = {"by_rule": "kept by a rule", "over_cap": "over the cap", "notice": "notice period"}


def section(
    title: str, count: int | None, table: str, note: str, nothing: str, *, anchor: str = "", most: int | None = SHOWN
) -> str:
    """Return a section with its heading and table, or a sentence where there is nothing.

    :param count: the number of rows there are; of more than are shown the section says so.
    :param note: a sentence below the heading.
    :param nothing: the sentence for none.
    :param anchor: the section's id in the page. Default: none.
    :param most: how many rows the table has at most; ``None`` for all of them.
    """
    number = "" if count is None else f' <span class="count">{count:,}</span>'
    is_cut = most is not None and (count or 0) > most
    more = f'<p class="more">The first {most} are shown; all are in the files.</p>' if is_cut else ""
    content = f'<p class="none">{escape(nothing)}</p>' if count == 0 else f"{table}{more}"
    below = f'<p class="note">{text(note)}</p>' if note and count != 0 else ""
    opened = f'<section id="{anchor}">' if anchor else "<section>"
    return f"{opened}<h2>{escape(title)}{number}</h2>{below}{content}</section>"


def banners(found: Iterable[tuple[str, str]]) -> str:
    """Return sentences that come before all else: each a class of colour, and HTML already."""
    return "".join(f'<p class="banner {kind}">{said}</p>' for kind, said in found)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Return a table of cells that are HTML already."""
    kinds = ["num" if place in numeric else "" for place in range(len(heads))]
    head = "".join(
        f'<th class="{kind}" scope="col">{escape(name)}</th>' for name, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    # It can be scrolled with the keyboard, too.
    said = escape(f"Table: {', '.join(filter(None, heads))}")
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{said}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def words_of(name: str) -> str:
    """Return a verdict or an outcome as people read it."""
    return _WORDS.get(name, name.replace("_", " "))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words, sorted by name."""
    return ", ".join(f"{words_of(name)} {count:,}" for name, count in sorted(counts.items()))


def text(value: object) -> str:
    """Return any string as HTML, cut to a bearable length."""
    return escape(shortened(str(value), _LONGEST_TEXT))


def group_name(value: str) -> str:
    """Return a name from the cluster as HTML."""
    # bdi: an id with right-to-left characters must not reorder the text around it
    return f"<code><bdi>{escape(shortened(value)) or '(empty id)'}</bdi></code>"


def pill(value: str, kind: str | None = None) -> str:
    """Return a verdict or an outcome as a label.

    :param kind: the class of its colour. Default: the name.
    """
    return f'<span class="pill {escape(value if kind is None else kind)}">{escape(words_of(value))}</span>'


def link(place: str) -> str:
    """Return a place as HTML: a link where it is one."""
    if place.startswith(("https://", "http://", "file://")):
        return f'<a href="{escape(place)}">{escape(place)}</a>'
    return f"<code>{escape(place)}</code>"


def shown_time(value: datetime) -> str:
    """Return a time as HTML."""
    return f'<time datetime="{value.isoformat()}">{value:%Y-%m-%d %H:%M:%S %Z}</time>'


def duration(seconds: float | None) -> str:
    """Return seconds in the unit that fits."""
    if seconds is None:
        return "-"
    for below, unit, name in ((120.0, 1.0, "s"), (7_200.0, 60.0, "min"), (172_800.0, 3_600.0, "h")):
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.1f} days"
