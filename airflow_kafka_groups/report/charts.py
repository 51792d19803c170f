"""Charts: stacked columns and bars as inline SVG, each with a legend and its numbers as a table; and those of reports.

Widths are percentages and heights are pixels, so that a chart fits a phone without shrinking its text. Colours are
classes of the page's style, because the page allows no style attributes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.report.page import SHOWN, part
from airflow_kafka_groups.shown import shortened

_HOUR, _DAY = 3_600.0, 86_400.0
_STEPS = {"1 h": _HOUR, "6 h": 6 * _HOUR, "1 d": _DAY, "3 d": 3 * _DAY, "7 d": 7 * _DAY}
_STEPS |= {"14 d": 14 * _DAY, "30 d": 30 * _DAY, "90 d": 90 * _DAY}
_AGES = (*(f"<{label}" for label in _STEPS), "≥90 d")
_AHEAD = ("past", *list(_STEPS)[2:-1], "later")
_AGE_LIMITS = [*_STEPS.values()]
_AHEAD_LIMITS = [0.0, *_AGE_LIMITS[2:-1]]
_MOST_BARS = 8
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


def idle_ages(idle: Iterable[tuple[float | None, bool]]) -> Markup:
    """Return the histogram of idle times.

    :param idle: the idle time of each group in seconds, and whether it is planned; groups in use have none.
    """
    found = Counter((bisect_right(_AGE_LIMITS, seconds), planned) for seconds, planned in idle if seconds is not None)
    kinds = (("kept", "c-settling", False), ("planned", "c-stale", True))
    places = range(len(_AGES))
    series = [Series(name, kind, [found[place, planned] for place in places]) for name, kind, planned in kinds]
    return columns("Idle for", _AGES, series)


def expiry_ahead(expires: Iterable[float | None], now: datetime) -> Markup:
    """Return how many groups the brokers will have forgotten by when, if they stay idle.

    :param expires: the time of each group in seconds since 1970, ``None`` where it is not known.
    :param now: the time to count from.
    """
    from_now = now.timestamp()
    found = Counter(bisect_right(_AHEAD_LIMITS, at - from_now) for at in expires if at is not None)
    values = [found[place] for place in range(len(_AHEAD))]
    return columns("Brokers forget them within", _AHEAD, [Series("groups", "c-moving", values)])


def family_growth(families: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the families that grow fastest."""
    growing = [family for family in families if (family["growth_per_day"] or 0) > 0]
    growing = sorted(growing, key=lambda family: (-family["growth_per_day"], family["name"]))[:_MOST_BARS]
    values = [float(family["growth_per_day"]) for family in growing]
    names = [str(family["name"]) for family in growing]
    return bars("New groups a day, by family", names, [Series("a day", "c-live", values)], what="groups a day")


def offsets_taken(offsets: Mapping[str, int]) -> Markup:
    """Return how many offsets were processed, for the partitions with the most.

    :param offsets: the number for each partition, by its name.
    """
    largest = sorted(offsets, key=lambda name: (-offsets[name], name))[:SHOWN]
    series = Series("offsets", "c-live", [offsets[name] for name in largest])
    return bars("Largest partitions", largest, [series], what="offsets processed")


def time_labels(at: Sequence[datetime]) -> list[str]:
    """Return the labels of times: the day, or the time of further ones on it.

    :param at: the times, oldest first.
    """
    days = [f"{each:%b %-d}" for each in at]
    return [f"{each:%H:%M}" if day == last else day for each, day, last in zip(at, days, [None, *days], strict=False)]
