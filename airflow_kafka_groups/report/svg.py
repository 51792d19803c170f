"""Stacked columns and bars as inline SVG, each with a legend and its numbers as a table.

Widths are percentages and heights are pixels, so that a chart fits a phone without shrinking its text. Colours are
classes of the page's style, because the page allows no style attributes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.report.page import part
from airflow_kafka_groups.shown import shortened

_HEIGHT, _FLOOR, _TOP = 190, 166, 18
_MOST_LABELS, _LABELS = 10, 6
_LONGEST_LABEL = 46
_BAR = 14


class Series(NamedTuple):
    """One colour of a chart.

    :param name: its name in the legend.
    :param kind: the class of its colour.
    :param values: a value for each label.
    """

    name: str
    kind: str
    values: Sequence[float]


def columns(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    over_time: bool = False,
    numbers: bool = True,
    unknown: Container[tuple[str, int]] = (),
) -> Markup:
    """Return a figure of stacked columns, with the total above each.

    :param labels: the names of the columns; of many, only some are shown.
    :param series: the parts of each column, from below.
    :param over_time: whether the columns are runs, which show the same groups again: their sum is no number of groups.
    :param numbers: whether the totals are above the columns. Default true.
    :param unknown: the names of parts, with the places of the columns in which they are not known: there they are 0.
    """
    labels = [shortened(label, _LONGEST_LABEL) for label in labels]
    used = [each for each in series if any(each.values)]
    totals = [sum(each.values[place] for each in series) for place in range(len(labels))]
    if not any(totals):
        return _figure(title, labels, series)
    highest, step = max(totals), 100 / len(labels)
    every = 1 if len(labels) <= _MOST_LABELS else -(-len(labels) // _LABELS)
    parts = []
    for place, total in enumerate(totals):
        left, below = step * (place + 0.1), float(_FLOOR)
        for each in used:
            height = (_FLOOR - _TOP) * each.values[place] / highest
            if height:
                below -= height
                hint = f"{labels[place]}: {each.name} {_exact(each.values[place])}"
                parts.append(
                    f'<rect class="{each.kind}" x="{left:.2f}%" y="{below:.1f}" width="{step * 0.8:.2f}%" '
                    f'height="{height:.1f}"><title>{escape(hint)}</title></rect>'
                )
        middle = f'x="{step * (place + 0.5):.2f}%"'
        if place % every == 0:
            parts.append(f'<text {middle} y="{_HEIGHT - 6}">{escape(labels[place])}</text>')
        if numbers and total and (every == 1 or place == totals.index(highest)):
            parts.append(f'<text class="value" {middle} y="{below - 5:.1f}">{_short(total)}</text>')
    most = labels[totals.index(highest)]
    every_group = "" if over_time else f"{_exact(sum(totals))} groups, "
    said = f"{title}: {every_group}most in {most}: {_exact(highest)}"
    svg = (
        f'<svg role="img" aria-label="{escape(said)}" width="100%" height="{_HEIGHT}">{"".join(parts)}'
        f'<line class="axis" x1="0" x2="100%" y1="{_FLOOR}" y2="{_FLOOR}"/></svg>'
    )
    return _figure(title, labels, series, svg, used, unknown)


def bars(title: str, labels: Sequence[str], series: Sequence[Series], *, what: str) -> Markup:
    """Return a figure of stacked horizontal bars, with each label above its bar.

    :param series: the parts of each bar, from the left; negative values are not drawn.
    :param what: what is measured, e.g. ``groups a day``.
    """
    totals = [sum(max(each.values[place], 0) for each in series) for place in range(len(labels))]
    if not any(totals):
        return _figure(title, labels, series)
    highest, parts = max(totals), []
    for place, label in enumerate(labels):
        values = " + ".join(_short(each.values[place]) for each in series if each.values[place]) or "0"
        left, pieces = 0.0, []
        for each in series:
            width = 100 * max(each.values[place], 0) / highest
            if width:
                pieces.append(f'<rect class="{each.kind}" x="{left:.2f}%" width="{width:.2f}%" height="{_BAR}"/>')
                left += width
        parts.append(
            f"<li><code><bdi>{escape(shortened(label))}</bdi></code><span>{escape(values)}</span>"
            f'<svg aria-hidden="true" width="100%" height="{_BAR}">{"".join(pieces)}</svg></li>'
        )
    shown = f'<ol class="bars" aria-label="{escape(f"{title}: {what}")}">{"".join(parts)}</ol>'
    return _figure(title, labels, series, shown, series if len(series) > 1 else ())


def _figure(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    drawn: str = "",
    legend: Sequence[Series] = (),
    unknown: Container[tuple[str, int]] = (),
) -> Markup:
    rows = [
        (shortened(label), ["-" if (each.name, place) in unknown else _exact(each.values[place]) for each in series])
        for place, label in enumerate(labels)
    ]
    return part("figure", title, legend, drawn, [title, *(each.name for each in series)], rows)


def _short(value: float) -> str:
    """Return a number that fits above a column."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:,.0f}{unit}" if scaled >= 100 else f"{scaled:.3g}{unit}"
    return _exact(value)


def _exact(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.10g}"
