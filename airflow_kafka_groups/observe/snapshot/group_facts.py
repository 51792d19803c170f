"""What a snapshot knows of each group besides its offsets: from the listing, and from a description where it is needed.

Every group is described that may have members: all but those that the listing reports as Empty, and share and streams
groups. So the members of a snapshot (see ``members``) cost no request of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, is_not_found
from airflow_kafka_groups.kafka.models import GroupDescription, GroupListing, GroupState, GroupType
from airflow_kafka_groups.kafka.models.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.observe.protocols import GroupAdmin
from airflow_kafka_groups.observe.snapshot.table import GroupFacts
from airflow_kafka_groups.storage.layout import Progress

_DESCRIBE_AT_ONCE = 2_000


async def gather_facts(
    admin: GroupAdmin,
    listings: GroupListings,
    wanted: list[str] | None,
    groups: GroupFilter,
    described: Callable[[GroupDescription], None],
    not_described: Callable[[str, object], None],
    progress: Progress,
) -> tuple[dict[str, GroupFacts], list[str]]:
    """Return the facts about every group in scope, and the requested ids that do not exist.

    :param wanted: only these groups. Default: those that ``groups`` selects.
    :param described: takes each group that is described.
    :param not_described: takes each group that could not be, and why.
    """
    ids = list(listings) if wanted is None else wanted
    selected = [group_id for group_id in ids if wanted is not None or groups.selects(group_id)]
    facts = {group_id: _from_listing(group_id, listings.get(group_id)) for group_id in selected}
    unclear = [group_id for group_id, fact in facts.items() if _needs_describing(fact)]
    not_found = []
    done = 0
    for start in range(0, len(unclear), _DESCRIBE_AT_ONCE):
        chunk = unclear[start : start + _DESCRIBE_AT_ONCE]
        for group_id, result in (await admin.describe_consumer_groups(chunk)).items():
            if group_id not in facts:
                continue
            if group_id not in listings and _is_absent(result):
                not_found.append(group_id)
                del facts[group_id]
            elif result.value is not None:
                facts[group_id] = _from_description(facts[group_id], result.value)
                described(result.value)
            else:
                not_described(group_id, result.error)
        done += len(chunk)
        progress("describe", done, len(unclear))
    return facts, not_found


def _from_listing(group_id: str, listing: GroupListing | None) -> GroupFacts:
    if listing is None:
        return GroupFacts(group_id=group_id, group_type=GroupType.UNKNOWN.value, protocol_type="")
    return GroupFacts(
        group_id=group_id,
        group_type=listing.type.value,
        protocol_type=listing.protocol_type,
        state=listing.state.value,
        members=0 if listing.state is GroupState.EMPTY else None,
        coordinator=listing.coordinator,
    )


def _from_description(facts: GroupFacts, described: GroupDescription) -> GroupFacts:
    """Add what the listing lacks: the members, and the state if it has none.

    A type that the listing lacks remains unknown: only some groups are described, and a type that appeared and
    disappeared with the state would look like another group when snapshots are compared.
    """
    if facts.coordinator is None:  # not in the listing
        facts = facts._replace(
            group_type=described.type.value,
            protocol_type=described.protocol_type,
            coordinator=described.coordinator,
        )
    state = described.state.value if facts.state == GroupState.UNKNOWN.value else facts.state
    return facts._replace(state=state, members=len(described.members))


def _needs_describing(facts: GroupFacts) -> bool:
    return facts.state != GroupState.EMPTY.value and not keeps_progress_elsewhere(facts.group_type, facts.protocol_type)


def _is_absent(result: GroupResult[GroupDescription]) -> bool:
    if result.error is not None:
        return is_not_found(result.error)
    return result.value is not None and result.value.state is GroupState.DEAD
