"""What every plural call of the AdminClient returns: a result for each key, and the same verbs everywhere.

Results never throw by themselves (one bad group never fails the others); ``raise_for_errors()`` is opt-in. A listing
has what it lacks in ``errors``, and code that deletes calls ``require_complete()``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, GroupsFailedError, IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import BrokerId, GroupId, GroupListing, GroupState, TopicPartition

V = TypeVar("V")

_MANY = 10_000


class GroupResult(NamedTuple, Generic[V]):
    """The result of one group (or coordinator key): a value, or an error, never both."""

    group_id: GroupId
    value: V | None = None
    error: KafkaGroupsError | None = None

    @property
    def ok(self) -> bool:
        """Whether the group succeeded."""
        return self.error is None

    def unwrap(self) -> V:
        """Return the value, or raise this group's error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # a success of an API without a value carries None


class _ByGroup(Mapping[GroupId, V]):
    __slots__ = ("_by_group",)
    _by_group: dict[GroupId, V]

    def __getitem__(self, group_id: GroupId) -> V:
        return self._by_group[group_id]

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._by_group)

    def __len__(self) -> int:
        return len(self._by_group)

    def values(self) -> ValuesView[V]:
        """Return what each group has; the inherited way looks every key up."""
        return self._by_group.values()


class GroupResults(_ByGroup[GroupResult[V]]):
    """The result of each group asked for, in the order asked."""

    __slots__ = ()

    def __init__(self, results: Iterable[GroupResult[V]]) -> None:
        self._by_group = {result.group_id: result for result in results}

    @classmethod
    def of(cls, results: dict[GroupId, GroupResult[V]]) -> GroupResults[V]:
        """Wrap a dict of each group's result, in the order asked, without copying it."""
        made = cls.__new__(cls)
        made._by_group = results
        return made

    def __repr__(self) -> str:
        failed = len(self.failed)
        return f"<GroupResults [{len(self)} groups | {len(self) - failed} succeeded | {failed} failed]>"

    @property
    def succeeded(self) -> dict[GroupId, V]:
        """The values of the groups that succeeded."""
        return {group_id: result.unwrap() for group_id, result in self._by_group.items() if result.error is None}

    @property
    def failed(self) -> dict[GroupId, KafkaGroupsError]:
        """The errors of the groups that failed."""
        return {group_id: result.error for group_id, result in self._by_group.items() if result.error is not None}

    def sorted(self) -> list[GroupResult[V]]:
        """Return the results ordered by group id."""
        return [self._by_group[group_id] for group_id in sorted(self._by_group)]

    def raise_for_errors(self) -> None:
        """Raise ``GroupsFailedError`` if any group failed."""
        if failed := self.failed:
            raise GroupsFailedError(failed, len(self))


class GroupListings(_ByGroup[GroupListing]):
    """Each group found with its listing, and in ``errors`` what the listing lacks.

    These are brokers that did not answer, then partitions of ``__consumer_offsets`` whose groups nobody lists.
    """

    __slots__ = ("errors",)

    def __init__(self, listings: Iterable[GroupListing], errors: Mapping[Any, KafkaGroupsError]) -> None:
        # A dict by name removes duplicates: after a failed delete, brokers list a group twice (measured on 4.2).
        every = list(listings)
        self._by_group = {listing.group_id: listing for listing in every}
        if len(self._by_group) < len(every):  # nor is one Empty that another broker lists in use, or with more doubt
            self._by_group |= {item.group_id: item for item in every if item.state is not GroupState.EMPTY}
        self.errors: dict[BrokerId | TopicPartition, KafkaGroupsError] = dict(sorted(errors.items(), key=_place))

    def __repr__(self) -> str:
        return f"<GroupListings [{len(self)} groups | {len(self.errors)} brokers or partitions missing]>"

    @property
    def complete(self) -> bool:
        """Whether every broker answered and every partition of ``__consumer_offsets`` has a leader."""
        return not self.errors

    def require_complete(self) -> GroupListings:
        """Return the listing itself, or raise ``IncompleteListingError`` if it is not complete."""
        if self.errors:
            raise IncompleteListingError(self.errors)
        return self


def _place(item: tuple[BrokerId | TopicPartition, KafkaGroupsError]) -> tuple[str, int]:
    where, _ = item
    return where if isinstance(where, TopicPartition) else ("", where)


def is_not_found(error: KafkaGroupsError | None) -> bool:
    """Return whether a broker answered that the group does not exist."""
    return isinstance(error, BrokerError) and error.name == "GROUP_ID_NOT_FOUND"


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the cyclic collector: the results of 50,000 groups, looked through again and again, have no cycle.

    Of calls that overlap, the one that paused it starts it again; so a service whose calls always overlap has it, too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # What was gathered is old at once: the collector would look through all of it now. Not where somebody has
            # frozen objects, as one does before forking: they would thaw with it.
            if gc.get_count()[0] >= _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
