"""Medians with their spread, and ratios of them. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The samples of one measure, and what they come to."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the middle sample, or the mean of the two in the middle."""
        return statistics.median(self.samples)

    @property
    def iqr(self) -> float:
        """Return the distance between the quartiles; 0 for a single sample."""
        if len(self.samples) == 1:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return high - low

    def as_json(self) -> dict[str, object]:
        return {
            "median": round(self.median, 6),
            "min": round(min(self.samples), 6),
            "max": round(max(self.samples), 6),
            "iqr": round(self.iqr, 6),
            "samples": [round(sample, 6) for sample in self.samples],
        }


def spread(samples: Sequence[float]) -> Spread | None:
    return Spread(tuple(samples)) if samples else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Divide ours by theirs; below 1 means that ours is less. ``None`` where one of them is missing or theirs is 0."""
    if ours is None or not theirs:
        return None
    return round(ours / theirs, 4)
