"""The deletion plan: the groups to delete and the reasons, fixed by a digest, so that what was approved is deleted.

A plan is created by ``make_plan``, written once and never changed. It is two files: the groups as columns, and a small
JSON header that is written last. The header has the SHA-256 of the groups' file, and the plan's digest is that of the
header: an edit of either breaks it, and the plan is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, cast

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, PlanError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import RuleFacts, demanding_approval
from airflow_kafka_groups.ledger.plan_rows import (
    KeptGroup,
    KeptGroups,
    PlannedGroup,
    PlannedGroups,
    Target,
    find_rows,
    read_columns,
    read_rows,
    write_rows,
)
from airflow_kafka_groups.ledger.sealed_plan import (
    SealedPlan,
    body_name,
    check_body,
    check_groups,
    check_header,
    log_plan,
    read_header,
    read_terms,
)
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, digest_of
from airflow_kafka_groups.storage.json_files import json_bytes
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import PLANS
from airflow_kafka_groups.storage.schemas import utc_times

NAMED_BY_HAND = "explicit"
"""The snapshot id in a plan of groups that were named: nobody has judged their idle time."""
_MOST_TRIALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(SealedPlan):
    """A plan of groups.

    ``body`` is the file of the groups. ``evidence`` is what the judgement rests on, with a sentence for people;
    ``None`` for groups that were named. ``families`` are the families of groups in numbers. A ``trial`` was made by the
    command line, and does not count as a run of the cluster until it is applied.
    """

    groups: Sequence[PlannedGroup]
    kept: Sequence[KeptGroup]
    evidence: Mapping[str, Any] | None = None
    families: tuple[Mapping[str, Any], ...] = ()
    trial: bool = False
    body: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            groups, kept = self.groups, self.kept
            groups = groups if isinstance(groups, PlannedGroups) else PlannedGroups.of(groups)
            kept = kept if isinstance(kept, KeptGroups) else KeptGroups.of(kept)
            check_groups(self.plan_id, groups)
            self._set(groups=groups, kept=kept, body=write_rows(groups, kept))
            self._set(digest=digest_of(self._header()))
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise PlanError(f"plan {self.plan_id} cannot be written: {type(exc).__name__}: {exc}") from exc

    @property
    def planned(self) -> PlannedGroups:
        """The groups to delete, as columns."""
        return cast("PlannedGroups", self.groups)

    @property
    def all_kept(self) -> KeptGroups:
        """The groups to keep, as columns."""
        return cast("KeptGroups", self.kept)

    @property
    def group_ids(self) -> list[str]:
        """The ids of the groups to delete."""
        return self.planned.column("group_id")

    touched = group_ids

    def targets(self) -> Iterator[Target]:
        """Yield what it deletes."""
        return self.planned.targets()

    @property
    def idle_from(self) -> datetime | None:
        """Since when the first of the groups to delete is idle; ``None`` if it is not known of any."""
        return min(filter(None, utc_times(self.planned.table["idle_since"])), default=None)

    @property
    def planned_by_family(self) -> dict[str, int]:
        """How many groups of each family are planned: also of families for which ``families`` has no room."""
        planned = Counter(self.planned.column("family"))
        every = planned + Counter(self.all_kept.column("family"))
        names = {name for name, groups in every.items() if name is not None and groups > 1}
        return {name: planned[name] for name in names | {family["name"] for family in self.families}}

    @property
    def rules_to_approve(self) -> list[str]:
        """The names of the rules that demand an approval, and that decided about a planned group or may match it."""
        if not any(rule.approval for rule in self.policy.rules):
            return []
        hidden = self.policy.allow_hidden_topics
        return demanding_approval(self.policy.rules, self.decided, topics_hidden=hidden)

    @property
    def decided(self) -> list[RuleFacts]:
        """The facts about the groups to delete that rules are matched against."""
        names = ("group_id", "group_type", "owner", "rule")
        columns = zip(*map(self.planned.column, names), strict=True)
        return [RuleFacts(id_, kind, owner, rule=rule) for id_, kind, owner, rule in columns]

    def to_json(self) -> dict[str, Any]:
        """Return the plan's header as docs/formats.md shows it."""
        return {**self._header(), "digest": self.digest}

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **self._terms(),
            **({} if self.evidence is None else {"evidence": dict(self.evidence)}),
            "groups": len(self.groups),
            "kept": len(self.kept),
            "body": {
                "name": body_name(self.plan_id),
                "bytes": len(self.body),
                "sha256": hashlib.sha256(self.body).hexdigest(),
            },
            **({} if self.view is None else {"view": self.view.to_json()}),
            **({"families": [dict(family) for family in self.families]} if self.families else {}),
            **({"trial": True} if self.trial else {}),
        }

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], body: bytes) -> DeletionPlan:
        """Parse a plan.

        :param data: its header.
        :param body: the file with its groups.

        Raises ``PlanError`` if either was changed after it was made, or something is missing.
        """
        check_header(data)
        plan = cls.__new__(cls)
        with unless_damaged(PlanError, f"plan {data.get('plan_id')!r}"):
            check_body(data, body)
            groups, kept = read_rows(body)
            plan._set(
                **read_terms(data),
                evidence=dict(data["evidence"]) if "evidence" in data else None,
                families=tuple(map(dict, data.get("families", ()))),
                trial=data.get("trial", False),
                groups=groups,
                kept=kept,
                body=body,
                digest=data["digest"],
            )
            check_groups(plan.plan_id, groups)
        if plan.to_json() != data:
            raise PlanError(f"plan {plan.plan_id!r} differs when read back: make a new plan")
        return plan


def save_plan(layout: Layout, plan: DeletionPlan) -> StoragePath:
    """Write a plan, and return its header's path.

    Raises ``PlanError`` if it belongs to another cluster or its id exists; ``JournalError`` and ``StorageError``.
    """
    path = layout.plan(plan.plan_id)
    if plan.cluster != layout.cluster:
        raise PlanError(f"plan {plan.plan_id} is for cluster {plan.cluster!r}, not for {layout.cluster!r}")
    if FILES.read(path) is not None:
        raise PlanError(f"{path} exists: plans are never changed, make a new one")
    log_plan(layout, plan)
    try:
        FILES.create(layout.plan_body(plan.plan_id), plan.body)
        FILES.create(path, json_bytes(plan.to_json()))
    except FileExistsAlreadyError as exc:
        raise PlanError(f"{exc}: plans are never changed, make a new one") from exc
    return path


def load_plan(layout: Layout, plan_id: str) -> DeletionPlan:
    """Read a plan and verify its digest. Raises ``PlanError`` and ``StorageError``."""
    data, body = _read(layout, plan_id)
    plan = DeletionPlan.from_json(data, body)
    plan.require_place(layout.plan(plan_id), plan_id, layout.cluster)
    return plan


def newest_plan(layout: Layout) -> str | None:
    """Return the newest plan that was made by verdicts, a trial only where none of the newest plans is another.

    ``None`` if there is none. Raises ``PlanError`` and ``StorageError``.
    """
    newest_first = sorted(FILES.ids(layout.root / PLANS), reverse=True)
    headers = ((id_, read_header(layout.plan(id_))) for id_ in newest_first)
    judged = ((id_, data.get("trial")) for id_, data in headers if data.get("snapshot_id") != NAMED_BY_HAND)
    newest: str | None = None
    for id_, trial in islice(judged, _MOST_TRIALS):
        newest = newest or id_
        if not trial:
            return id_
    return newest


def find_in_plan(layout: Layout, plan_id: str, group_id: str) -> PlannedGroup | KeptGroup | None:
    """Return what a plan says of one group, ``None`` if it does not name it. Other groups are not decoded.

    Raises ``PlanError`` and ``StorageError``.
    """
    data, body = _read(layout, plan_id)
    check_header(data)
    with unless_damaged(PlanError, f"plan {plan_id!r}"):
        check_body(data, body)
        return next(iter(find_rows(body, group_id)), None)


def planned_columns(layout: Layout, plan_id: str, names: Sequence[str]) -> Any:
    """Return columns of all groups that a plan names, sorted by id. Raises ``PlanError`` and ``StorageError``.

    :param names: of the columns in ``PLAN_COLUMNS``.
    """
    data, body = _read(layout, plan_id)
    check_header(data)
    with unless_damaged(PlanError, f"plan {plan_id!r}"):
        check_body(data, body)
        return read_columns(body, names)


def _read(layout: Layout, plan_id: str) -> tuple[dict[str, Any], bytes]:
    data = read_header(layout.plan(plan_id))
    place = layout.plan_body(plan_id)
    body = FILES.read(place)
    if body is None:
        raise PlanError(f"the groups of the plan are missing: there is no {place}")
    return data, body


def least_idle_times(plan: DeletionPlan) -> dict[str, float]:
    """Return the idle time that each planned group had to have, in seconds, by its rule and those that may match."""
    before = plan.policy.rules_before()
    return {group.group_id: before.most(group, lambda rule: rule.min_idle_seconds) for group in plan.decided}


def policy_of_plan(layout: Layout, plan_id: str) -> PlanPolicy:
    """Return the policy of a plan without reading its groups. Raises ``PlanError`` and ``StorageError``."""
    data = read_header(layout.plan(plan_id))
    check_header(data)
    with unless_damaged(PlanError, f"plan {plan_id!r}"):
        return PlanPolicy.from_json(data["policy"])
