"""Families: groups whose ids differ in a generated part only, as ``report-<uuid>``, and how fast they grow. Pure.

A family is recognized by the shape of the id's tail alone, so that a group's family does not depend on which other
groups there are.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
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


_GROWTH_DAYS = 7.0
_SHOWN_FAMILIES = 200


class TailShape(StrEnum):
    """The kind of a generated part, in the order in which it is looked for."""

    UUID = "uuid"
    DATE = "date"
    VERSION = "version"
    NUMBER = "number"
    HASH = "hash"


class Family(NamedTuple):
    """A family: its name, such as ``report-<uuid>``, and the shape of the part that differs."""

    name: str
    shape: TailShape


_HEX = "[0-9a-fA-F]"
_UUID = re.compile(rf"(?<![0-9a-fA-F]){_HEX}{{8}}-?(?:{_HEX}{{4}}-?){{3}}{_HEX}{{12}}(?![0-9a-fA-F])")
_NUMBER = re.compile(r"(?<![^-_.:/])\d+(?![^-_.:/])")
_POD = "[bcdfghjklmnpqrstvwxz2456789]"
"""The letters and digits of Kubernetes' generated names."""
_BEGINS = r"(?:(?<=[-_.:/@#])|\A)"
_TAILS = (
    re.compile(
        rf"{_BEGINS}(?P<date>(?:19|20)\d\d(?P<between>[-_.]?)(?:0[1-9]|1[0-2])(?P=between)(?:0[1-9]|[12]\d|3[01])"
        r"(?:[-_T]?[0-2]\d[-_:]?[0-5]\d(?:[-_:]?[0-5]\d)?Z?)?)\Z"
    ),
    # No number begins before a version in the same id.
    re.compile(rf"{_BEGINS}(?:(?P<version>[vV]\d+(?:[._]\d+)*|\d+\.\d+(?:\.\d+)*)|(?P<number>\d+))\Z"),
    # A hash has digits and letters; a word such as "feedface" has none of the former.
    re.compile(rf"{_BEGINS}(?=[^-_.:/]*\d)(?=[^-_.:/]*[a-fA-F])(?P<hash>{_HEX}{{7,64}})\Z"),
    re.compile(rf"{_BEGINS}(?=[^-]*\d)(?=[^-]*[a-z])(?P<hash>{_POD}{{8,10}}-{_POD}{{5}})\Z"),
)
"""Each names the shape of what it finds."""
_LONGEST_TAIL = 256
"""Where a tail begins at the earliest: ids may have 32,767 letters, and each separator is tried up to the end."""


def family_of(group_id: str) -> Family | None:
    """Return the family of a group, ``None`` for an id without a generated part.

    :param group_id: the group's id. A UUID counts wherever it is, anything else only at the end.
    """
    if (uuid := _UUID.search(group_id)) is not None:
        after = _NUMBER.sub("<number>", group_id[uuid.end() :])
        return Family(f"{group_id[: uuid.start()]}<uuid>{after}", TailShape.UUID)
    start = max(len(group_id) - _LONGEST_TAIL, 0)
    while start and group_id[start : start + _LONGEST_TAIL].isdecimal():  # a number has any length
        start = max(start - _LONGEST_TAIL, 0)
    for tail in _TAILS:
        if (found := tail.search(group_id, start)) is not None:
            shape = TailShape(str(found.lastgroup))
            return Family(f"{group_id[: found.start()]}<{shape}>", shape)
    return None


class Member(NamedTuple):
    """What is known of one group of a family."""

    group_id: str
    family: str
    owner: str | None
    planned: bool
    first_seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySummary:
    """A family in numbers.

    :param groups: how many groups of it exist.
    :param planned: how many of them the plan deletes.
    :param newest: the member that was first seen last, and ``newest_at`` when; ``None`` if that is not known.
    :param growth_per_day: members first seen in the last 7 days, a day; ``None`` where the history is too short.
    :param owners: the names of its owners, sorted.
    :param too_fast: the rules that allow less growth.
    """

    name: str
    groups: int
    planned: int
    newest: str | None
    newest_at: str | None
    growth_per_day: float | None
    owners: tuple[str, ...]
    too_fast: tuple[FastFamily, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a plan's header has it."""
        values = {name: getattr(self, name) for name in self.__slots__} | {"owners": list(self.owners)}
        fast = [each.to_json() for each in values.pop("too_fast")]
        return {**values, **({"too_fast": fast} if fast else {})}


def summarize(members: Iterable[Member], observed_at: datetime, fast: Iterable[FastFamily] = ()) -> list[FamilySummary]:
    """Return the families of two groups or more, at most 200: fast growing ones first, then by planned groups.

    :param members: all groups that have a family.
    :param observed_at: the time of the snapshot. A group that its first snapshot showed may be older, so growth is
        known only where some member of any family was first seen before the last 7 days.
    :param fast: the families that grow faster than a rule allows; they are there with one group, too.
    """
    of_fast: dict[str, list[FastFamily]] = {}
    for each in fast:
        of_fast.setdefault(each.family, []).append(each)
    of_family: defaultdict[str, list[Member]] = defaultdict(list)
    times = {observed_at}
    for member in members:
        of_family[member.family].append(member)
        times.add(member.first_seen_at or observed_at)
    earliest, since = min(times), observed_at - timedelta(days=_GROWTH_DAYS)
    since_known = since if earliest < since else None
    found = [
        _summary(name, some, since_known, tuple(of_fast.get(name, ())))
        for name, some in of_family.items()
        if len(some) > 1 or name in of_fast
    ]
    return sorted(found, key=lambda one: (not one.too_fast, -one.planned, -one.groups, one.name))[:_SHOWN_FAMILIES]


def _summary(
    name: str, members: list[Member], since: datetime | None, too_fast: tuple[FastFamily, ...]
) -> FamilySummary:
    seen = [(member.first_seen_at, member.group_id) for member in members if member.first_seen_at is not None]
    newest = max(seen, default=None)
    growth = None
    if since is not None and len(seen) == len(members):
        growth = round(sum(at > since for at, _ in seen) / _GROWTH_DAYS, 2)
    return FamilySummary(
        name=name,
        groups=len(members),
        planned=sum(member.planned for member in members),
        newest=None if newest is None else newest[1],
        newest_at=None if newest is None else newest[0].isoformat(),
        growth_per_day=growth,
        owners=tuple(sorted({member.owner for member in members if member.owner is not None})),
        too_fast=too_fast,
    )
