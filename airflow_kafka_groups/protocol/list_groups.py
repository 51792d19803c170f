"""ListGroups: the groups one broker coordinates.

v0 group and protocol type · v1 throttle time · v3 flexible · v4 states (KIP-518) · v5 types (KIP-848)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_kafka_groups.models import BrokerId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.protocol.apis import LIST_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema

FIRST_STATES_VERSION = 4
FIRST_TYPES_VERSION = 5


def build(states: Sequence[GroupState], types: Sequence[GroupType], version: int) -> Message:
    """Make a request; a filter that the version does not know is left out, and applied by the caller."""
    request = request_schema(LIST_GROUPS, version).ListGroupsRequest
    if version >= FIRST_TYPES_VERSION:
        return request(states_filter=tuple(states), types_filter=tuple(types))
    if version >= FIRST_STATES_VERSION:
        return request(states_filter=tuple(states))
    return request()


def parse(response: Message, version: int, broker_id: BrokerId) -> Iterator[GroupListing]:
    """Give the groups listed; what the version does not tell is ``UNKNOWN``."""
    for group in response.groups:
        yield GroupListing(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            state=GroupState.parse(group.group_state if version >= FIRST_STATES_VERSION else None),
            type=GroupType.parse(group.group_type if version >= FIRST_TYPES_VERSION else None),
            coordinator=broker_id,
        )
