"""When a peer takes no part in a scenario, and the sentence that says so. Pure: from what is known to a reason."""

from collections.abc import Mapping, Sequence

from tests.bench.scenarios import Scenario

TOO_LONG_S = 90.0
"""A call that is expected to take longer is not made."""

ENOUGH_S = 30.0
"""A peer that has been called for this long in a scenario makes room for the others, as soon as it has a sample."""

NOT_OFFERED = {
    ("java", "find_coordinators"): "the Admin interface has no call for coordinators",
    ("kafka_python", "find_coordinators"): "KafkaAdminClient has no public call for coordinators",
    ("confluent", "find_coordinators"): "AdminClient has no call for coordinators",
}
_JAVA_MOST = 50
_JAVA_SLOW = (
    "before Kafka 3.0 Java asks for one group at a time and pauses between them; measured: 50 groups 22 s, 100 groups "
    "92 s, 200 groups time out"
)

KNOWN_FAILURES = {
    ("franz_go", "delete.4x.50000"): (
        "all groups of a broker go in one request, and their tombstones are more than one batch of a partition of "
        "__consumer_offsets holds"
    )
}
"""What a peer is known not to manage: measured and shown like everything else, but no fault of the measurement."""


def why_not(peer: str, scenario: Scenario, before: Mapping[int, float]) -> str | None:
    """Return why this peer takes no part in this scenario, or ``None`` when it does.

    :param before: number of groups -> seconds (warm median) of this peer for the same operation and broker.
    """
    if peer not in scenario.peers:
        return "skipped: not part of this comparison (making the groups takes minutes for each client)"
    if (peer, scenario.operation) in NOT_OFFERED:
        return f"n/a: {NOT_OFFERED[peer, scenario.operation]}"
    if peer == "java" and scenario.name.startswith("list_offsets.28") and scenario.groups > _JAVA_MOST:
        return f"skipped: too slow beyond {_JAVA_MOST} groups ({_JAVA_SLOW})"
    smaller = [groups for groups in before if groups < scenario.groups]
    if smaller:
        basis = max(smaller)
        expected = before[basis] * scenario.groups / basis
        if expected > TOO_LONG_S:
            return (
                f"skipped: too slow (at {basis:,} groups {before[basis]:.1f} s a call, so {expected:.0f} s here, if "
                "its time grows no faster than the groups)"
            )
    return None


def has_enough(warm: Sequence[float], cold: Sequence[float]) -> bool:
    """Return whether a peer needs no further rounds: it has a warm sample, and took long for all its samples."""
    return len(warm) > 0 and sum(warm) + sum(cold) > ENOUGH_S
