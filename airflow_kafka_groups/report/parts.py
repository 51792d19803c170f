"""How pages word counts and times, and how many rows their tables have."""

from __future__ import annotations

from collections.abc import Mapping

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
