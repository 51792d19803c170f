"""The groups of a listing in columns: 50,000 of them are sent to tasks, and one object each would take half a second.

The facts of a listing besides the id (type, protocol type, state, coordinator) are the same for many groups, so they
are stored once per kind of group.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.models import GroupListing
from airflow_kafka_groups.spark.source.filters import GROUP_ID, KIND_COLUMNS, PushedFilters


class GroupKind(NamedTuple):
    """The facts that many groups share."""

    group_type: str
    protocol_type: str
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """Groups: their ids, and the kind of each.

    :param codes: for each group the index of its kind.
    """

    ids: tuple[str, ...] = ()
    kinds: tuple[GroupKind, ...] = ()
    codes: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<ListedGroups [{len(self)} groups]>"

    def pick(self, numbers: Iterable[int]) -> ListedGroups:
        """Return some of these groups.

        :param numbers: their indexes, from 0.
        """
        numbers = list(numbers)
        codes = array("i", [self.codes[number] for number in numbers])
        return ListedGroups(tuple([self.ids[number] for number in numbers]), self.kinds, codes)

    def by_coordinator(self) -> Iterator[ListedGroups]:
        """Iterate over the groups of each coordinator, in the order of coordinators."""
        of_broker: dict[int, list[int]] = {}
        brokers = [kind.coordinator for kind in self.kinds]
        for number, code in enumerate(self.codes):
            of_broker.setdefault(brokers[code], []).append(number)
        for _, numbers in sorted(of_broker.items()):
            yield self.pick(numbers)

    def cut(self, at_most: int) -> Iterator[ListedGroups]:
        """Split into the minimum number of parts, of equal size, so that no task gets a small remainder."""
        ordered = sorted(range(len(self)), key=self.ids.__getitem__)
        count = -(-len(ordered) // at_most)
        for number in range(count):
            yield self.pick(ordered[number * len(ordered) // count : (number + 1) * len(ordered) // count])


def select(listings: Iterable[GroupListing], wanted: GroupFilter, filters: PushedFilters) -> ListedGroups:
    """Return the groups in scope.

    :param filters: conditions of the query; those on facts other than the id are evaluated once per kind.
    """
    codes: dict[tuple[str, str, str, int], int] = {}
    kinds: list[GroupKind] = []
    holds: list[bool] = []
    ids: list[str] = []
    code_of = array("i")
    for listing in listings:
        key = (listing.type, listing.protocol_type, listing.state, listing.coordinator)
        code = codes.get(key)
        if code is None:
            code = codes[key] = len(kinds)
            kind = GroupKind(listing.type.value, listing.protocol_type, listing.state.value, int(listing.coordinator))
            kinds.append(kind)
            holds.append(all(filters.holds(name, getattr(kind, name)) for name in KIND_COLUMNS))
        group_id = listing.group_id
        if holds[code] and filters.holds(GROUP_ID, group_id) and wanted.selects(group_id):
            ids.append(group_id)
            code_of.append(code)
    return ListedGroups(tuple(ids), tuple(kinds), code_of)


def in_turns(parts: Sequence[Sequence[ListedGroups]]) -> list[ListedGroups]:
    """Interleave the parts of all coordinators, so that concurrent tasks use different brokers."""
    longest = max(map(len, parts), default=0)
    return [of_one[number] for number in range(longest) for of_one in parts if number < len(of_one)]
