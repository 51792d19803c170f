"""The records of changes that create no group: nobody wants their groups to stay, so their offsets are not read."""

from __future__ import annotations

import json

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.durable_files import read_file
from airflow_kafka_groups.storage.layout import StoragePath

_MOVES = ("reset", "delete offsets")
_BEGIN = 8_192
"""Bytes in which a record says what it is of; what is no longer is read at once."""


def read_unless_move(path: StoragePath) -> bytes | None:
    """Read the record of a change; of such a one no more than the beginning: it may have hundreds of megabytes.

    Return ``None`` if there is none. Raises ``StorageError``.
    """
    try:
        begin = read_file(path, 0, _BEGIN)
    except StorageError:  # an object store has no part of an empty file; every other error is raised again
        return read_file(path)
    is_enough = begin is None or without_moves(begin) != begin or (len(begin) < _BEGIN and _is_json(begin))
    return begin if is_enough else read_file(path)


def _is_json(data: bytes) -> bool:
    """Return whether a record was read to its end: a storage may give fewer bytes than it was asked for."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


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
