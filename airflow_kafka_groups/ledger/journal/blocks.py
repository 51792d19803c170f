"""Bodies of journal entries with many groups: lines of JSON in the order of the groups' ids, each sealed by itself.

The entry has an index with the first id, the place and the SHA-256 of each line. So who asks about one group reads one
line, and a line is believed only if its SHA-256 is the one in the entry.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.paths import parse_time


def intents_json(fingerprints: Mapping[str, str]) -> dict[str, Any]:
    """Return the groups of an intent with their fingerprints."""
    return {"groups": list(fingerprints), "fingerprints": list(fingerprints.values())}


def outcomes_json(outcomes: Iterable[GroupOutcome]) -> dict[str, Any]:
    """Return outcomes: the groups, the different outcomes, and which of them each group has."""
    places: dict[tuple[str, str, str], int] = {}
    groups, which = list[str](), list[int]()
    for item in outcomes:
        groups.append(item.group_id)
        which.append(places.setdefault((item.outcome.value, item.code, item.reason), len(places)))
    return {"groups": groups, "outcomes": [list(found) for found in places], "which": which}


def intents_of(entry: Mapping[str, Any], at: datetime) -> Iterator[tuple[str, datetime]]:
    """Yield the groups that an entry says were about to be deleted, and when. Raises ``KeyError`` and the like."""
    if entry.get("kind") == "intent":
        yield from ((group_id, at) for group_id in entry["groups"])
    else:  # the end of a small run
        for group_id, when in entry.get("intents", {}).items():
            yield group_id, parse_time(when)


def outcomes_of(entry: Mapping[str, Any], at: datetime) -> Iterator[tuple[GroupOutcome, datetime]]:
    """Yield the outcomes in an entry, and when each was recorded. Raises ``KeyError``, ``ValueError`` and the like."""
    if "which" in entry:
        yield from ((item, at) for item in _outcomes(entry))
    else:
        for item in entry.get("outcomes", ()):
            yield GroupOutcome.from_json(item), parse_time(item["at"])


def end_json(
    outcomes: Sequence[GroupOutcome], intents: Mapping[str, str], decided: Mapping[str, str], at: str
) -> dict[str, Any]:
    """Return the outcomes of a complete run with their times; the inverse of ``end_of``."""
    times: dict[str, int] = {}

    def place(when: str) -> int:
        return times.setdefault(when, len(times))

    return {
        **outcomes_json(outcomes),
        "decided": [place(decided.get(item.group_id, at)) for item in outcomes],
        "intended": [place(intents[item.group_id]) if item.group_id in intents else None for item in outcomes],
        "times": list(times),
    }


def end_of(rows: Mapping[str, Any]) -> Iterator[tuple[GroupOutcome, datetime, datetime | None]]:
    """Yield each outcome with the time when it was recorded and that of the group's intent, if there was one."""
    times = [parse_time(when) for when in rows["times"]]
    columns = zip(_outcomes(rows), rows["decided"], rows["intended"], strict=True)
    for item, decided, intended in columns:
        yield item, times[decided], None if intended is None else times[intended]


def _outcomes(entry: Mapping[str, Any]) -> Iterator[GroupOutcome]:
    kinds = [(Outcome(what), str(code), str(reason)) for what, code, reason in entry["outcomes"]]
    for group_id, place in zip(entry["groups"], entry["which"], strict=True):
        what, code, reason = kinds[place]
        yield GroupOutcome(group_id=group_id, outcome=what, code=code, reason=reason)


T = TypeVar("T")

BLOCK_GROUPS = 2_000


def write_blocks(
    path: StoragePath, items: Sequence[T], group_id: Callable[[T], str], as_json: Callable[[Sequence[T]], Any]
) -> dict[str, Any]:
    """Create the file of a body, durably, and return its index.

    :param items: what the body is about; ``group_id`` tells the group of each, and ``as_json`` turns some into a line.

    Raises ``FileExistsAlreadyError`` and ``StorageError``.
    """
    ordered = sorted(items, key=group_id)
    lines, index, place = list[bytes](), list[list[Any]](), 0
    for start in range(0, len(ordered), BLOCK_GROUPS):
        block = ordered[start : start + BLOCK_GROUPS]
        line = (json.dumps(as_json(block), separators=(",", ":"), allow_nan=False) + "\n").encode()
        index.append([group_id(block[0]), place, hashlib.sha256(line).hexdigest()])
        lines.append(line)
        place += len(line)
    FILES.create(path, b"".join(lines))
    return {"file": path.name, "bytes": place, "blocks": index}


class Blocks:
    """A body that was written by ``write_blocks``.

    :param index: what ``write_blocks`` returned, from an entry that is believed.

    Raises ``JournalError`` for an index that is damaged.
    """

    def __init__(self, folder: StoragePath, index: Mapping[str, Any]) -> None:
        with unless_damaged(JournalError, f"an index in {folder}"):
            name = str(index["file"])
            if "/" in name:  # whoever names an entry may have written it
                raise ValueError(f"{name!r} is in another folder")
            self._path = folder / name
            blocks = [(str(first), int(place), str(sha256)) for first, place, sha256 in index["blocks"]]
            ends = [*(place for _, place, _ in blocks), int(index["bytes"])]
        self._firsts = [first for first, _, _ in blocks]
        self._seals = [sha256 for _, _, sha256 in blocks]
        self._bounds = list(pairwise(ends))

    def verify(self) -> None:
        """Raise ``JournalError`` if a line is missing or was changed, and ``StorageError``."""
        for _ in self._lines():
            pass

    def read(self) -> Iterator[Any]:
        """Yield what every line says. Raises ``JournalError`` and ``StorageError`` as ``verify`` does."""
        return map(json.loads, self._lines())

    def find(self, group_id: str) -> Any | None:
        """Return the line that would have the group, ``None`` if none would. Raises as ``read`` does."""
        number = bisect_right(self._firsts, group_id) - 1
        if number < 0:
            return None
        return json.loads(self._checked(number, FILES.read(self._path, *self._bounds[number])))

    def _lines(self) -> Iterator[bytes]:
        content = FILES.read(self._path, 0, self._bounds[-1][1] if self._bounds else 0)
        for number, (start, end) in enumerate(self._bounds):
            yield self._checked(number, None if content is None else content[start:end])

    def _checked(self, number: int, line: bytes | None) -> bytes:
        if line is None:
            raise JournalError(f"{self._path} is missing, and the journal says that it was written")
        if hashlib.sha256(line).hexdigest() != self._seals[number]:
            raise JournalError(f"{self._path} is not what the journal says was written: it was changed")
        return line
