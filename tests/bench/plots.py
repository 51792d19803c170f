"""Plots as plain SVG, without a library: seconds against groups on logarithmic axes, a line for each client. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from tests.bench.scenarios import PEERS, TITLES

Point = tuple[float, float]
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 160, 44, 48
COLORS = {
    "ours": "#d62728",
    "franz_go": "#1f77b4",
    "java": "#8c6d31",
    "kafka_python": "#2ca02c",
    "confluent": "#7f4fbf",
}
PLOTS = {
    "bench-list-offsets-4x": ("list_offsets", "4x", "Offsets of many groups, 20 each (Kafka 4.1)"),
    "bench-list-offsets-28-20ms": (
        "list_offsets",
        "28_20ms",
        "Offsets of many groups, 20 each (Kafka 2.8, 20 ms away)",
    ),
    "bench-delete-4x": ("delete", "4x", "Deleting many groups, 20 offsets each (Kafka 4.1)"),
}


def plots(scenarios: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return file name (without ``.svg``) -> picture, of those with something to draw."""
    made = {}
    for name, (operation, broker, title) in PLOTS.items():
        series = _series(
            scenario for scenario in scenarios if (scenario["operation"], scenario["broker"]) == (operation, broker)
        )
        if any(len(points) > 1 for points in series.values()):
            made[name] = line_chart(title, series)
    return made


def _series(scenarios: Iterable[Mapping[str, Any]]) -> dict[str, list[Point]]:
    series: dict[str, list[Point]] = {}
    for scenario in sorted(scenarios, key=lambda one: int(one["groups"])):
        for peer in PEERS:
            result = scenario["peers"].get(peer, {})
            if result.get("status") == "measured" and "warm" in result:
                series.setdefault(peer, []).append((scenario["groups"], result["warm"]["median"]))
    return series


def line_chart(title: str, series: Mapping[str, Sequence[Point]]) -> str:
    """Draw points joined by lines; the client's name stands at the end of its line."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    across = _Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = _Axis(min(ys), max(ys), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">groups</text>',
        f'<text x="16" y="{TOP - 6}">seconds</text>',
    ]
    parts += [_vertical(across.at(tick), _label(tick)) for tick in across.ticks()]
    parts += [_horizontal(up.at(tick), _label(tick)) for tick in up.ticks()]
    ends = _apart({peer: up.at(points[-1][1]) for peer, points in series.items()})
    for peer, points in series.items():
        parts.append(_line(peer, [(across.at(x), up.at(y)) for x, y in points], ends[peer]))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """A logarithmic axis from ``low`` to ``high``, drawn between two places."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = math.log10(low) - 0.05
        self._high = max(math.log10(high) + 0.05, self._low + 0.5)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._start + part * (self._end - self._start), 1)

    def ticks(self) -> list[float]:
        found = []
        for power in range(math.floor(self._low), math.ceil(self._high) + 1):
            for step in (1, 2, 5):
                value = float(f"{step}e{power}")
                if self._low <= math.log10(value) <= self._high:
                    found.append(value)
        return found


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _vertical(x: float, label: str) -> str:
    bottom = HEIGHT - BOTTOM
    return (
        f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#e4e4e4"/>'
        f'<text x="{x}" y="{bottom + 16}" text-anchor="middle" fill="#555555">{label}</text>'
    )


def _horizontal(y: float, label: str) -> str:
    return (
        f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e4e4e4"/>'
        f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end" fill="#555555">{label}</text>'
    )


def _line(peer: str, places: Sequence[Point], label_y: float) -> str:
    color, width = COLORS[peer], 3 if peer == "ours" else 1.6
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{color}"/>' for x, y in places)
    end_x, _ = places[-1]
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>{dots}'
        f'<text x="{end_x + 9}" y="{label_y + 4}" fill="{color}">{escape(TITLES[peer])}</text>'
    )


def _apart(places: Mapping[str, float], least: float = 14.0) -> dict[str, float]:
    """Move labels down so that none covers another."""
    moved: dict[str, float] = {}
    last = -math.inf
    for peer, y in sorted(places.items(), key=lambda item: item[1]):
        last = max(y, last + least)
        moved[peer] = round(last, 1)
    return moved
