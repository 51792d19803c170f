"""Authorized operations on a group, a topic or the cluster: the bit field of KIP-430."""

from __future__ import annotations

UNKNOWN_OPERATIONS = -(2**31)
"""The value where operations were not asked for, or the broker is too old."""
_NAMES = {
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    9: "cluster_action",
    10: "describe_configs",
    11: "alter_configs",
    12: "idempotent_write",
}


def operations(bits: int) -> frozenset[str] | None:
    """Read the bit field; ``None`` where operations were not asked for, or the broker is too old."""
    if bits == UNKNOWN_OPERATIONS:
        return None
    return frozenset(name for bit, name in _NAMES.items() if bits & (1 << bit))
