"""What this user may do, asked and never tried: authorized operations of the cluster, topics and groups (KIP-430).

A broker that is too old to say (before 2.3) leaves ``None``: not known, which is neither yes nor no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.results import is_not_found
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, GroupState

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient

Operations = frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAccess:
    """The operations allowed on one group; ``None`` if unknown.

    :param read: its committed offsets can be read, all of them.
    :param delete: it can be deleted.
    :param restore: offsets can be committed for it: READ on the group and on every topic it has commits in.
    """

    group_id: str
    read: bool | None
    delete: bool | None
    restore: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The operations allowed to this user.

    :param lists_all: whether a listing shows every group (DESCRIBE on the cluster), or only those it may describe.
    :param sees_all_topics: see ``AdminClient.sees_all_topics``.
    :param lease: whether the group that stands for the right to delete can be joined (READ).
    :param groups: the groups that were asked about and could be described.
    :param failed: those that exist, as far as is known, and could not be described, with the error.
    """

    lists_all: bool | None
    sees_all_topics: bool = True
    lease: bool | None = None
    groups: Mapping[str, GroupAccess] = field(default_factory=dict)
    failed: Mapping[str, KafkaGroupsError] = field(default_factory=dict)


FEWER_LISTED = "Only groups that this user may describe are listed: there may be more."
SEE_ALL = "Allow Describe on the cluster to see every group."


async def lists_all(admin: AdminClient) -> bool | None:
    """Return whether a listing shows every group; ``None`` where that is not known. Raises ``KafkaGroupsError``."""
    return _allows((await admin.authorized_operations([])).cluster_operations, "describe")


async def describe_access(admin: AdminClient, group_ids: Iterable[str], lease_group_id: str) -> Access:
    """Ask what may be done with some groups, and with the group that stands for the right to delete.

    Groups that do not exist are left out. Raises what asking for metadata raises.
    """
    described = await admin.describe_consumer_groups(group_ids, include_authorized_operations=True)
    there = {group_id: group for group_id, group in described.succeeded.items() if group.state is not GroupState.DEAD}
    offsets = await admin.list_consumer_group_offsets(list(there)) if there else {}
    read = {group_id: result.value for group_id, result in offsets.items()}
    topics = {topic.topic for of_group in read.values() if of_group is not None for topic in of_group.topics}
    told = await admin.authorized_operations(sorted(topics))
    return Access(
        lists_all=_allows(told.cluster_operations, "describe"),
        sees_all_topics=await admin.sees_all_topics(),
        lease=_allows(await admin.group_operations(lease_group_id), "read"),
        groups={id_: _access(group, read.get(id_), told.topic_operations) for id_, group in there.items()},
        failed={id_: error for id_, error in described.failed.items() if not is_not_found(error)},
    )


def _access(group: GroupDescription, offsets: GroupOffsets | None, of_topics: Mapping[str, Operations]) -> GroupAccess:
    # A topic that this user may not describe is not in its offsets' answer, or not in the metadata's: not readable.
    topics = [of_topics.get(topic.topic, frozenset()) for topic in offsets.topics] if offsets is not None else []
    commits = [_allows(operations, "read") for operations in (group.authorized_operations, *topics)]
    return GroupAccess(
        group_id=group.group_id,
        read=offsets is not None,
        delete=_allows(group.authorized_operations, "delete"),
        restore=False if False in commits or offsets is None else None if None in commits else True,
    )


def _allows(operations: Operations, name: str) -> bool | None:
    return None if operations is None else name in operations
