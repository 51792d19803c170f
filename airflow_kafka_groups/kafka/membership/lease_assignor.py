"""The assignor of the lease, and its metadata and assignment formats. Pure functions.

Metadata and assignment are small JSON objects: Kafka's own tools can print them, and fields can be added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from airflow_kafka_groups.kafka.membership.member import JoinedMember

_LONGEST_NAME = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """The metadata of a candidate: name, waiting since (ms), and the generation in which it holds the lease.

    ``term`` makes each request without a claim another one. To a member whose metadata is what it was, a broker answers
    from memory, so one that does not know yet that it is coordinator no more would give a lease that another has.
    """

    owner: str = ""
    since: int = 0
    holds: int | None = None
    term: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The assignment sent to all members: the holder's member id and name."""

    holder: str = ""
    owner: str = ""


def write_bid(bid: Bid) -> bytes:
    """Serialize a bid."""
    return json.dumps({"owner": bid.owner, "since": bid.since, "holds": bid.holds, "term": bid.term}).encode()


def read_bid(data: bytes) -> Bid | None:
    """Parse a bid. Returns ``None`` for anything else, so that invalid bytes cannot claim a lease."""
    fields = _fields(data)
    since, holds = fields.get("since"), fields.get("holds")
    if type(since) is not int or not (holds is None or type(holds) is int):
        return None
    return Bid(owner=str(fields.get("owner", "")), since=since, holds=holds)


@lru_cache(maxsize=64)
def read_grant(data: bytes) -> Grant:
    """Parse a grant. Anything else names no holder."""
    fields = _fields(data)
    holder = fields.get("holder")
    # The name is for people, and another run chose it: it is shown in logs and errors.
    return Grant(holder=holder if isinstance(holder, str) else "", owner=str(fields.get("owner", ""))[:_LONGEST_NAME])


def assign(leader_id: str, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    """Assign the lease to the newest claim, or else to the longest waiting member, and inform all members."""
    bids = {member.member_id: read_bid(member.metadata) for member in members}
    good = {member_id: bid for member_id, bid in bids.items() if bid is not None}
    claims = {member_id: bid.holds for member_id, bid in good.items() if bid.holds is not None}
    if claims:
        holder = max(claims, key=lambda member_id: (claims[member_id], member_id))
    else:
        holder = min(good, key=lambda member_id: (good[member_id].since, member_id), default=leader_id)
    owner = good[holder].owner if holder in good else ""
    data = json.dumps({"holder": holder, "owner": owner}).encode()
    return {member.member_id: data for member in members}


def _fields(data: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
