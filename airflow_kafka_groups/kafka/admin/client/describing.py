"""Describe groups of every type: classic ones first, and what is not found there by the newer APIs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from airflow_kafka_groups.exceptions import SwitchedOffError, UnsupportedVersionError
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.handlers.describe_groups import DescribeGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.api_versions import CONSUMER_GROUP_DESCRIBE
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES

_BATCHES_IN_ONE = 4
"""Descriptions are short: larger requests cost less, and still overlap."""


async def describe_groups(
    calls: Calls, group_ids: Iterable[str], include_authorized_operations: bool
) -> GroupResults[GroupDescription]:
    """Ask the coordinators of groups for their descriptions; a group that no API knows has the state ``DEAD``.

    It has no type then, though brokers answer with that of the API.
    """
    wanted = group_ids_of(group_ids)
    size = calls.batch_size
    classic = DescribeGroupsHandler(include_authorized_operations, _BATCHES_IN_ONE * size(len(wanted)))
    results = await calls.ask_coordinators(wanted, classic)
    switched_off = dict[str, GroupResult[GroupDescription]]()
    for api in GROUP_TYPES:
        not_found = _perhaps_of_another_type(results)
        if not not_found:
            return results
        modern = DescribeGroupsHandler(include_authorized_operations, size(len(not_found)), api)
        answers = await calls.ask_coordinators(list(not_found), modern)
        # A broker that does not know the API has no such groups: the earlier answer stands.
        known = {new.group_id: new for new in answers.values() if not isinstance(new.error, UnsupportedVersionError)}
        results = _with(results, known)
        if api is CONSUMER_GROUP_DESCRIBE:
            switched_off = {new.group_id: new for new in answers.values() if isinstance(new.error, SwitchedOffError)}
    absent = _perhaps_of_another_type(results)
    gone = {
        id_: GroupResult(id_, found._replace(type=GroupType.UNKNOWN, protocol_type="")) for id_, found in absent.items()
    }
    if not_told := [found for id_, found in absent.items() if id_ in switched_off]:
        gone |= await _listed(calls, not_told, switched_off)
    return _with(results, gone)


def _perhaps_of_another_type(results: GroupResults[GroupDescription]) -> dict[str, GroupDescription]:
    """Return the groups that were not found, unless the answer was about groups of every type."""
    dead, no_type = GroupState.DEAD, GroupType.UNKNOWN  # looking up a member takes a while
    return {
        group_id: found
        for group_id, found, _ in results.values()
        if found is not None and found.state is dead and found.type is not no_type
    }


def _with(
    results: GroupResults[GroupDescription], others: dict[str, GroupResult[GroupDescription]]
) -> GroupResults[GroupDescription]:
    return GroupResults.of(dict(zip(results, results.values(), strict=True)) | others)


async def _listed(
    calls: Calls, described: Collection[GroupDescription], switched_off: Mapping[str, GroupResult[GroupDescription]]
) -> dict[str, GroupResult[GroupDescription]]:
    """Return the error of each group that is listed by the brokers that describe none, or that may be.

    Where the protocol was switched off, its groups are there still, with their offsets; only their state is not told.
    """
    kind = GroupType.CONSUMER
    answers = await calls.ask_brokers({group.coordinator for group in described}, ListGroupsHandler(types=(kind,)))
    there = {group.group_id for _, found, _ in answers for group in found or () if group.type is kind}
    errors = {broker_id: error for broker_id, _, error in answers if error is not None}
    doubtful = {
        group.group_id: GroupResult[GroupDescription](group.group_id, error=errors[group.coordinator])
        for group in described
        if group.coordinator in errors  # a group that nobody lists may be there
    }
    return doubtful | {id_: result for id_, result in switched_off.items() if id_ in there}
