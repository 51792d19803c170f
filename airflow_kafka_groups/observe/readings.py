"""Readings of many groups by an ``AdminClient``, of which none looks complete or empty that is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, MissingAnswerError
from airflow_kafka_groups.kafka.admin.lag import GroupLag
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupDescription, GroupListing, GroupOffsets, GroupState
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED, GroupFilter, protecting

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient

V = TypeVar("V")

HIDDEN = (
    "%s what groups have committed of topics that this user may not describe: brokers leave these out without an "
    "error. Allow Describe on all topics"
)
"""The warning where a reading may be short, after what it is about."""


def is_out_of_reach(group_id: str, error: KafkaGroupsError | None, protected: Sequence[str]) -> bool:
    """Return whether an ACL refuses a group that nobody manages here: the platform's, or one that is protected.

    Google lists its prober's group on each of its clusters, and lets nobody describe it. That is no failure of a
    reading of all groups; of one that names the group, it is.

    :param protected: the patterns of the connection, beside those of platform groups.
    """
    refused = isinstance(error, BrokerError) and error.name == "GROUP_AUTHORIZATION_FAILED"
    return refused and protecting((*DEFAULT_PROTECTED, *protected)).protects(group_id)


async def read_offsets(
    admin: AdminClient, group_ids: list[str], *, require_stable: bool
) -> AsyncIterator[GroupResult[GroupOffsets]]:
    """Yield exactly one result per group: the first one received, or an error.

    A missing result must never look like "no offsets": a group without a result and a result without a value are
    errors.
    """
    waiting = dict.fromkeys(group_ids)
    async for result in admin.stream_consumer_group_offsets(group_ids, require_stable=require_stable):
        if result.group_id not in waiting:
            continue
        del waiting[result.group_id]
        if result.error is None and (result.value is None or result.value.group_id != result.group_id):
            yield GroupResult(
                result.group_id, error=MissingAnswerError(f"the result for {result.group_id!r} has no offsets")
            )
        else:
            yield result
    for group_id in waiting:
        yield GroupResult(group_id, error=MissingAnswerError(f"there is no result for {group_id!r}"))


async def why_short(admin: AdminClient, what: str) -> str | None:
    """Return the warning where a reading may be short, or nobody can tell; ``None`` where it is not.

    It is asked at the end, since the right may be taken away meanwhile. No error of it loses what was read.

    :param what: what the warning is about, with its verb.
    """
    try:
        return None if await admin.sees_all_topics() else HIDDEN % what
    except KafkaGroupsError as error:
        return f"{HIDDEN % what}. Whether there are any is not known: {error}"


async def committed_of(admin: AdminClient, group_ids: Sequence[str]) -> dict[str, GroupResult[GroupOffsets]]:
    """Read the committed offsets of groups, each with exactly one result."""
    return {result.group_id: result async for result in read_offsets(admin, list(group_ids), require_stable=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """The latest reading of one group; ``None`` is "no answer".

    :param listing: the group in a complete listing that was made before. Default: nobody looked.
    """

    listing: GroupListing | None = None
    description: GroupResult[GroupDescription] | None
    offsets: GroupResult[GroupOffsets] | None

    @property
    def group(self) -> GroupDescription | None:
        """The group as described, if it was."""
        return None if self.description is None else self.description.value

    @property
    def committed(self) -> GroupOffsets | None:
        """Its committed offsets, if they were read."""
        return None if self.offsets is None else self.offsets.value


async def read_groups(
    admin: AdminClient, group_ids: Sequence[str], listings: Mapping[str, GroupListing] = MappingProxyType({})
) -> dict[str, GroupReading]:
    """Describe groups, then read their offsets.

    In this order: where a group's coordinator moves in between, its offsets are the new one's, and the deletion is
    refused by the old one, which is the one that described it.
    """
    described = await admin.describe_consumer_groups(list(group_ids))
    offsets = await committed_of(admin, group_ids)
    return {
        id_: GroupReading(listing=listings.get(id_), description=described.get(id_), offsets=offsets.get(id_))
        for id_ in group_ids
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """The groups that are read.

    :param group_ids: named groups; duplicates are ignored. Default: those of the cluster that match ``groups``.
    :param groups: the patterns of the groups. Default: all.
    :param protected: patterns of groups that may be refused, besides those of platform groups: that is no failure.
    :param may_be_short: whether groups are read although a broker did not list its own. Default false.
    """

    group_ids: Sequence[str] | None = None
    groups: GroupFilter = field(default_factory=GroupFilter)
    protected: Sequence[str] = ()
    may_be_short: bool = False


class GroupsRead(NamedTuple, Generic[V]):
    """What was read of groups.

    :param found: the results, without those of refused groups.
    :param refused: protected groups that an ACL refuses; they are rows of a reading of all groups, and no failures.
    :param missing: named groups that do not exist, where that was looked for.
    :param unlisted: the errors of what the listing lacks: brokers and partitions.
    """

    found: GroupResults[V]
    refused: list[str]
    missing: Sequence[str]
    unlisted: Mapping[Any, KafkaGroupsError]


async def read_selected(
    admin: AdminClient,
    selection: GroupSelection,
    read: Callable[[list[str]], Awaitable[GroupResults[V]]],
    *,
    is_bare: Callable[[V], bool] | None = None,
) -> GroupsRead[V]:
    """Read groups, and look which of the named ones do not exist.

    :param is_bare: whether what was read is what brokers answer for a group that does not exist: it has no offset.
        Default: nothing says so.

    Raises ``IncompleteListingError`` if a broker did not answer the listing, unless that is allowed.
    """
    named, unlisted = selection.group_ids, dict[Any, KafkaGroupsError]()
    if named is not None:
        wanted = list(dict.fromkeys(named))
    else:
        listed = await admin.list_groups()
        unlisted = dict(listed.errors if selection.may_be_short else listed.require_complete().errors)
        wanted = sorted(filter(selection.groups.selects, listed))
    found = await read(wanted)
    if named is None:
        refused = {id_ for id_, one in found.items() if is_out_of_reach(id_, one.error, selection.protected)}
        reached = GroupResults(each for each in found.values() if each.group_id not in refused)
        return GroupsRead(reached, sorted(refused), (), unlisted)
    bare = [] if is_bare is None else [group_id for group_id, value in found.succeeded.items() if is_bare(value)]
    described = (await admin.describe_consumer_groups(bare)).succeeded if bare else {}
    missing = sorted(group_id for group_id, group in described.items() if group.state is GroupState.DEAD)
    return GroupsRead(found, [], missing, unlisted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagReading:
    """How far groups are behind.

    :param groups: what was read.
    :param lags: the groups that exist and can be read, the largest lag first.
    :param unknown: the groups whose lag is not known, with the reason.
    :param warning: why lags may be too small; ``None`` if they are not.
    """

    groups: GroupsRead[GroupLag]
    lags: Sequence[GroupLag]
    unknown: Mapping[str, str]
    warning: str | None

    def above(self, most: int) -> list[GroupLag]:
        """Return the groups that are known to be more messages behind, the largest lag first."""
        return [lag for lag in self.lags if lag.group_id not in self.unknown and (lag.messages or 0) > most]


async def measure_lag(admin: AdminClient, selection: GroupSelection) -> LagReading:
    """Measure the lag of groups. Of a named group without a commit, it is not known, and never 0."""
    read = await read_selected(admin, selection, admin.list_consumer_group_lag, is_bare=_is_bare)
    warning = await why_short(admin, "These lags may lack")
    unknown = {group_id: str(error) for group_id, error in read.found.failed.items()}
    for group_id, lag in read.found.succeeded.items():
        if group_id in read.missing:
            unknown[group_id] = "it does not exist"
        elif selection.group_ids is not None and _is_bare(lag):
            unknown[group_id] = "it has no committed offset"
        elif lag.messages is None:
            unknown[group_id] = "a commit is beyond the end of its log, or a log end is unknown"
    there = [lag for group_id, lag in read.found.succeeded.items() if group_id not in read.missing]
    lags = sorted(there, key=lambda lag: (-(lag.messages or 0), lag.group_id))
    return LagReading(groups=read, lags=lags, unknown=unknown, warning=warning)


def _is_bare(lag: GroupLag) -> bool:
    return not lag.committed_partitions
