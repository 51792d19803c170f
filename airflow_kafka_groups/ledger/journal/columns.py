"""The groups of the journal's entries in columns: intents, outcomes, and all outcomes once more when a run ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
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
    columns = zip(outcomes_of(rows), rows["decided"], rows["intended"], strict=True)
    for item, decided, intended in columns:
        yield item, times[decided], None if intended is None else times[intended]


def outcomes_of(entry: Mapping[str, Any]) -> Iterator[GroupOutcome]:
    """Yield the outcomes in an entry; the inverse of ``outcomes_json``. Raises ``KeyError`` and the like."""
    kinds = [(Outcome(what), str(code), str(reason)) for what, code, reason in entry["outcomes"]]
    for group_id, place in zip(entry["groups"], entry["which"], strict=True):
        what, code, reason = kinds[place]
        yield GroupOutcome(group_id=group_id, outcome=what, code=code, reason=reason)
