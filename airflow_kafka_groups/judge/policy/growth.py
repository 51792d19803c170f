"""The growth of families: which of them gets more new groups a day than a rule allows. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

GROWTH_SECONDS = 86_400.0
"""Growth is counted over a day, or since the newest snapshot before that."""

_LONGEST_NAME = 100


class NewGroup(NamedTuple):
    """A group that appeared: its family, the rule that decides about it (or none), and what is allowed a day."""

    family: str
    rule: str | None
    allowed_per_day: float


class FastFamily(NamedTuple):
    """A family that grows faster than a rule allows.

    :param rule: the name of the rule; ``None`` for a limit of all families.
    :param per_day: the number of new groups a day, about which the rule decides.
    :param allowed_per_day: how many it allows.
    """

    family: str
    rule: str | None
    per_day: float
    allowed_per_day: float

    def to_json(self) -> dict[str, Any]:
        """Return what a family in the header of a plan has of it."""
        return {name: value for name, value in self._asdict().items() if name != "family"}

    def sentence(self) -> str:
        """Return one sentence for a reader."""
        by = "" if self.rule is None else f"rule {self.rule!r}, "
        return (
            f"family {self.family[:_LONGEST_NAME]!r} grows by {self.per_day:g} groups a day, and "
            f"{self.allowed_per_day:g} are allowed ({by}max_growth_per_day): look for a client that makes up a group "
            "id at each start"
        )


def too_fast(new: Iterable[NewGroup], days: float) -> list[FastFamily]:
    """Return the families that grow faster than a rule allows, those furthest above it first.

    :param new: the groups that appeared in these days.
    :param days: the number of days, above 0.
    """
    found = [
        # Rounded up: "grows by 50 groups a day, and 50 are allowed" is no reason for a warning.
        FastFamily(each.family, each.rule, math.ceil(count / days * 100 - 1e-9) / 100, each.allowed_per_day)
        for each, count in Counter(new).items()
        if count > each.allowed_per_day * days
    ]
    return sorted(found, key=lambda fast: (fast.allowed_per_day - fast.per_day, fast.family, fast.rule or ""))
