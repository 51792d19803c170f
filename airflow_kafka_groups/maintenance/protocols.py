"""What maintenance needs of an AdminClient: a protocol, so that tests use a small fake and nothing opens a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.exceptions import KafkaGroupsError, MissingAnswerError
from airflow_kafka_groups.models import GroupDescription, GroupOffsets, ListedOffset, OffsetSpec, TopicPartition


class GroupAdmin(Protocol):
    """Be the part of ``AdminClient`` that maintenance uses."""

    async def list_groups(self) -> GroupListings:
        """List the groups of every broker, with the brokers that did not answer."""

    async def describe_consumer_groups(self, group_ids: list[str], /) -> GroupResults[GroupDescription]:
        """Describe groups; one that does not exist has the state ``DEAD``."""

    def stream_consumer_group_offsets(
        self, groups: list[str], /, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        """Give each group's committed offsets as they arrive."""

    async def delete_consumer_groups(
        self, group_ids: list[str], /, *, offsets: Mapping[str, GroupOffsets] | None = None
    ) -> GroupResults[None]:
        """Delete groups, in requests cut by the offsets they hold."""

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], /
    ) -> Mapping[TopicPartition, ListedOffset | KafkaGroupsError]:
        """Give log starts, log ends or offsets by time."""

    async def cluster_id(self) -> str | None:
        """Give the id the cluster gave itself."""

    async def sees_all_topics(self) -> bool:
        """Say whether this user may describe topics in general; the others are left out of committed offsets."""


class BackupAdmin(GroupAdmin, Protocol):
    """What backup and restore need beside ``GroupAdmin``: the topics' ids."""

    async def topic_ids(self, topics: Iterable[str], /) -> Mapping[str, str]:
        """Return the ids of topics by name, where they have one. A topic that was recreated has another.

        Raises ``UnsupportedByClientError`` when this client cannot learn them.
        """


class DeletionLease(Protocol):
    """Be the part of ``MaintenanceLease`` that a deletion uses. What it says holds for that moment."""

    group_id: str
    owner: str
    term: int
    """Another one says that the lease was lost and came back: another run may have held it in between."""

    @property
    def remaining(self) -> float:
        """Give the seconds for which the lease is still certain; 0 when it is not held."""

    @property
    def generation(self) -> int:
        """Give the generation of the group that gave this run the lease, -1 if none did."""

    @property
    def member_id(self) -> str:
        """Give this run's id in the group, "" while it has none."""

    def check(self, at_least: float = 0.0) -> None:
        """Raise ``LeaseLostError`` unless the lease is certain for so many seconds."""

    async def confirm(self, at_least: float = 0.0) -> None:
        """Wait a moment until it is; raise ``LeaseLostError`` if that does not come."""


async def read_offsets(
    admin: GroupAdmin, group_ids: list[str], *, require_stable: bool
) -> AsyncIterator[GroupResult[GroupOffsets]]:
    """Give exactly one result for each group: the first answer, or an error where there was none.

    "No answer" must never look like "no offsets": both a group left out and a success without a value are errors.
    """
    waiting = dict.fromkeys(group_ids)
    async for result in admin.stream_consumer_group_offsets(group_ids, require_stable=require_stable):
        if result.group_id not in waiting:
            continue
        del waiting[result.group_id]
        if result.error is None and (result.value is None or result.value.group_id != result.group_id):
            yield GroupResult(result.group_id, error=MissingAnswerError(f"no offsets came for {result.group_id!r}"))
        else:
            yield result
    for group_id in waiting:
        yield GroupResult(group_id, error=MissingAnswerError(f"{group_id!r} was asked for and not answered"))
