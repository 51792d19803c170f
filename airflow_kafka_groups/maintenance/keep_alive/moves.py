"""The records of changes that create no group: nobody wants their groups to stay, so their offsets are not parsed."""

from __future__ import annotations

import json

_MOVES = ("reset", "delete offsets")


def without_moves(data: bytes) -> bytes:
    """Return the record of such a change without its groups, with which it ends; that of any other as it is."""
    head, groups, _ = data.partition(b'"groups": [')
    try:
        return shorter if groups and json.loads(shorter := head + groups + b"]}")["what"] in _MOVES else data
    except (ValueError, KeyError, TypeError, RecursionError):
        return data
