"""Describe groups of every type: classic ones first, and what is not found there by the newer APIs."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.admin.client.arguments import group_ids_of
from airflow_kafka_groups.admin.client.calls import Calls
from airflow_kafka_groups.admin.handlers.describe_groups import (
    DescribeClassicGroupsHandler,
    DescribeModernGroupsHandler,
)
from airflow_kafka_groups.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.exceptions import SwitchedOffError, UnsupportedVersionError
from airflow_kafka_groups.models import GroupDescription, GroupState, GroupType
from airflow_kafka_groups.protocol.apis import CONSUMER_GROUP_DESCRIBE
from airflow_kafka_groups.protocol.group_apis.describe_modern_groups import GROUP_TYPES

_BATCHES_IN_ONE = 4
"""Descriptions are short: larger requests cost less, and still overlap."""


async def describe_groups(
    calls: Calls, group_ids: Iterable[str], include_authorized_operations: bool
) -> GroupResults[GroupDescription]:
    """Ask the coordinators of groups for their descriptions; a group that no API knows has the state ``DEAD``."""
    wanted = group_ids_of(group_ids)
    size = calls.batch_size
    classic = DescribeClassicGroupsHandler(include_authorized_operations, _BATCHES_IN_ONE * size(len(wanted)))
    results = await calls.ask_coordinators(wanted, classic)
    dead = GroupState.DEAD
    switched_off = dict[str, GroupResult[GroupDescription]]()
    for api in GROUP_TYPES:
        not_found = [group_id for group_id, found, _ in results.values() if found is not None and found.state is dead]
        if not not_found:
            break
        modern = DescribeModernGroupsHandler(api, include_authorized_operations, size(len(not_found)))
        answers = await calls.ask_coordinators(not_found, modern)
        # A broker that does not know the API has no such groups: the earlier answer stands.
        known = {new.group_id: new for new in answers.values() if not isinstance(new.error, UnsupportedVersionError)}
        results = GroupResults.of(dict(zip(results, results.values(), strict=True)) | known)
        if api is CONSUMER_GROUP_DESCRIBE:
            switched_off = {new.group_id: new for new in answers.values() if isinstance(new.error, SwitchedOffError)}
    if switched_off:
        there = await _listed(calls, [found for id_, found, _ in results.values() if id_ in switched_off])
        known = {id_: result for id_, result in switched_off.items() if id_ in there}
        results = GroupResults.of(dict(zip(results, results.values(), strict=True)) | known)
    return results


async def _listed(calls: Calls, described: Iterable[GroupDescription | None]) -> set[str]:
    """Return the groups of the consumer protocol that are listed by the brokers that describe none.

    Where the protocol was switched off, its groups are there still, with their offsets; only their state is not told.
    """
    brokers = {group.coordinator for group in described if group is not None and group.state is GroupState.DEAD}
    kind = GroupType.CONSUMER
    answers = await calls.ask_brokers(brokers, ListGroupsHandler(types=(kind,))) if brokers else []
    return {group.group_id for _, found, _ in answers for group in found or () if group.type is kind}
