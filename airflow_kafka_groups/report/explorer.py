"""The rows of the table of all groups, as JSON of bounded size for the page's script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.plan_rows import PlanRows
from airflow_kafka_groups.report.facts import KEPT_IN_ORDER, NOT_REACHED
from airflow_kafka_groups.report.page import words_of
from airflow_kafka_groups.shown import MOST, shortened
from airflow_kafka_groups.storage.arrow_values import column

MOST_ROWS = 20_000
MOST_BYTES = 4_000_000
"""Whatever the ids are: those that contain the longest are simply fewer."""

_FIRST = [Outcome.UNKNOWN, Outcome.FAILED, Outcome.KEPT, Outcome.GONE, Outcome.DELETED, Outcome.WOULD_DELETE, "planned"]
_PLACES = {str(name): place for place, name in enumerate([*_FIRST, *KEPT_IN_ORDER])}
_RESTORABLE = (Outcome.DELETED, Outcome.UNKNOWN)
_FIGURES = ("lag", "idle_seconds", "expires_at")


class _Names:
    """Names that occur often, each stored once. ``bytes`` are those of their JSON."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.bytes = 0

    def number(self, name: str | None) -> int:
        """Return the name's number, -1 for none."""
        if name is None:
            return -1
        shown = shortened(name)
        if (known := self.names.get(shown)) is None:
            known = self.names[shown] = len(self.names)
            self.bytes += len(_encode(shown)) + 1
        return known


def groups_json(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], judged: Any, restore: str) -> str:
    """Return the groups as JSON without ``<``, those that somebody should look at first.

    :param outcomes: the latest outcome of each planned group.
    :param judged: what the verdicts say, as of ``ReportFacts``.
    :param restore: the command that restores the deleted groups; empty for none.
    """
    rows = list(_rows(plan, outcomes))
    figures = _figures(judged, [group_id for _, group_id, *_ in rows])
    statuses, families, owners = _Names(), _Names(), _Names()
    encoded: list[str] = []
    cut: list[int] = []
    size = 0
    for number, (status, group_id, family, owner, reason) in enumerate(rows):
        names = statuses.number(status), families.number(family), owners.number(owner)
        line = _encode((shortened(group_id), *names, *figures[number], shortened(reason)))
        size += len(line) + 1
        if size + families.bytes + owners.bytes > MOST_BYTES:
            break
        encoded.append(line)
        if len(group_id) > MOST:
            cut.append(number)
    kinds = list(statuses.names)
    head = {
        "total": len(plan.planned) + len(plan.all_kept),
        "kinds": kinds,
        "statuses": [words_of(kind) for kind in kinds],
        "restorable": [number for kind, number in statuses.names.items() if kind in _RESTORABLE],
        "families": list(families.names),
        "owners": list(owners.names),
        "restore": restore,
        "cut": cut,
    }
    return f'{_encode(head)[:-1]},"rows":[{",".join(encoded)}]}}'


def _rows(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[Any, ...]]:
    """Yield status, id, family, owner and reason of the groups to show, those that somebody should look at first."""
    planned, kept = plan.planned, plan.all_kept
    other = Outcome.KEPT.value if outcomes else "planned"
    statuses = [outcomes[group_id]["outcome"] if group_id in outcomes else other for group_id in plan.group_ids]
    statuses += kept.column("verdict")
    places = [_PLACES.get(status, len(_PLACES)) for status in statuses]
    shown = sorted(range(len(places)), key=places.__getitem__)[:MOST_ROWS]
    of_plan, of_kept = (
        _columns(groups.take([number - first for number in shown if 0 <= number - first < len(groups)]))
        for groups, first in ((planned, 0), (kept, len(planned)))
    )
    for number in shown:
        status = statuses[number]
        group_id, family, owner, reason = next(of_plan if number < len(planned) else of_kept)
        if number < len(planned) and status not in ("planned", Outcome.DELETED, Outcome.WOULD_DELETE):
            reason = outcomes[group_id]["reason"] if group_id in outcomes else NOT_REACHED
        yield status, group_id, family, owner, reason


def _figures(judged: Any, group_ids: list[str]) -> list[tuple[Any, ...]]:
    """Return what the verdicts say of groups; nothing of one that has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if judged is None:
        return [(None,) * len(_FIGURES)] * len(group_ids)
    places = pc.index_in(column(group_ids, pa.string()), value_set=judged["group_id"])
    found = judged.take(places)
    return list(zip(*(found[name].to_pylist() for name in _FIGURES), strict=True))


def _columns(groups: PlanRows[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*map(groups.column, ("group_id", "family", "owner", "reason")), strict=True)


def _encode(value: Any) -> str:
    # A script element ends with "</script", whatever the quotes around it; a comment would begin with "<!--".
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
