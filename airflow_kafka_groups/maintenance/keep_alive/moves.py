"""The records of changes that create no group: nobody wants their groups to stay, so their offsets are not parsed."""

from __future__ import annotations

import json

_MOVES = ("reset", "delete offsets")


def without_moves(data: bytes) -> bytes:
    """Return the record of such a change without its groups, with which it ends; that of any other as it is."""
    try:
        return shorter if json.loads(shorter := without_groups(data))["what"] in _MOVES else data
    except (ValueError, KeyError, TypeError, RecursionError):
        return data


def without_groups(data: bytes) -> bytes:
    """Return the record of a change without its groups, with which it ends, also of one that ends within them."""
    head, groups, _ = data.partition(b'"groups": [')
    return head + groups + b"]}" if groups else data
