"""The deletion plan: the groups to delete and the reasons, fixed by a digest, so that what was approved is deleted.

A plan is created by ``make_plan``, written once and never changed: editing the file breaks its digest, and the plan is
refused. ``require_applicable`` is called before anything is backed up or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_groups.contracts.digest import digest_of, is_digest
from airflow_kafka_groups.contracts.formats import FORMAT
from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.contracts.paths import PLANS
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.maintenance.cluster_view import ClusterView, recorded_view
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json, write_json

NAMED_BY_HAND = "explicit"
"""Stands for the snapshot's id in a plan of groups that were named: nobody has judged how long they were idle."""
_CLOCK_SLACK = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """One group to delete, as it was when it was judged.

    ``forecast`` is for people (see ``verdicts.py``); nothing is decided by it.
    """

    group_id: str
    group_type: str
    protocol_type: str
    state: str
    partitions: int
    lag: int | None
    idle_since: str | None
    idle_seconds: float | None
    reason: str
    fingerprint: str
    forecast: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGroup:
    """One group that is not in the plan, and why.

    ``verdict`` is the job's, or a ``KeptName`` for a group that the job found stale.
    """

    group_id: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """A plan; ``digest`` is computed from all the rest when it is made.

    ``view`` is what the snapshot's connection saw of the cluster; plans of earlier versions have none.
    """

    plan_id: str
    cluster: str
    kafka_cluster_id: str
    snapshot_id: str
    created_at: datetime
    expires_at: datetime
    policy: PlanPolicy
    counts: Mapping[str, int]
    warnings: tuple[str, ...]
    groups: tuple[PlannedGroup, ...]
    kept: tuple[KeptGroup, ...]
    view: ClusterView | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if len({group.group_id for group in self.groups}) != len(self.groups):
            raise PlanError(f"plan {self.plan_id} names a group twice")
        for group in self.groups:
            if not is_digest(group.fingerprint):
                raise PlanError(f"plan {self.plan_id}: group {group.group_id!r} has no fingerprint of its offsets")
        try:
            object.__setattr__(self, "digest", digest_of(self._content()))
        except (TypeError, ValueError) as exc:
            raise PlanError(f"the plan cannot be written as JSON: {exc}") from exc

    @property
    def group_ids(self) -> list[str]:
        """The ids of the groups to delete, longest idle first."""
        return [group.group_id for group in self.groups]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as docs/formats.md shows it."""
        return {**self._content(), "digest": self.digest}

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "plan_id": self.plan_id,
            "cluster": self.cluster,
            "kafka_cluster_id": self.kafka_cluster_id,
            "snapshot_id": self.snapshot_id,
            "created_at": self.created_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "policy": self.policy.to_json(),
            "counts": dict(self.counts),
            "warnings": list(self.warnings),
            "groups": [_as_json(group) for group in self.groups],
            "kept": [_as_json(group) for group in self.kept],
            **({} if self.view is None else {"view": self.view.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DeletionPlan:
        """Parse a plan. Raises ``PlanError`` if it was changed after it was made, or a field is missing."""
        if digest_of(data) != data.get("digest"):
            raise PlanError(
                f"plan {data.get('plan_id')!r} was changed after it was made (digest mismatch): make a new plan"
            )
        try:
            plan = cls(
                plan_id=data["plan_id"],
                cluster=data["cluster"],
                kafka_cluster_id=data["kafka_cluster_id"],
                snapshot_id=data["snapshot_id"],
                created_at=parse_time(data["created_at"]),
                expires_at=parse_time(data["expires_at"]),
                policy=PlanPolicy.from_json(data["policy"]),
                counts=dict(data["counts"]),
                warnings=tuple(data["warnings"]),
                groups=tuple(PlannedGroup(**group) for group in data["groups"]),
                kept=tuple(KeptGroup(**group) for group in data["kept"]),
                view=recorded_view(data.get("view"), "it"),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise PlanError(f"plan {data.get('plan_id')!r} is damaged: {type(exc).__name__}: {exc}") from exc
        if plan.digest != data["digest"]:
            raise PlanError(f"plan {plan.plan_id!r} differs when read back: make a new plan")
        return plan


def save_plan(layout: Layout, plan: DeletionPlan) -> StoragePath:
    """Write a plan. Raises ``PlanError`` if it belongs to another cluster or its id exists."""
    path = layout.plan(plan.plan_id)
    if plan.cluster != layout.cluster:
        raise PlanError(f"plan {plan.plan_id} is for cluster {plan.cluster!r}, not for {layout.cluster!r}")
    if path.exists():
        raise PlanError(f"{path} exists: plans are never changed, make a new one")
    return write_json(layout.root / PLANS, path.name, plan.to_json())


def load_plan(layout: Layout, plan_id: str) -> DeletionPlan:
    """Read a plan and verify its digest. Raises ``PlanError``."""
    path = layout.plan(plan_id)
    plan = DeletionPlan.from_json(read_json(path, "the plan", PlanError))
    if plan.plan_id != plan_id or plan.cluster != layout.cluster:
        raise PlanError(f"{path} contains plan {plan.plan_id!r} of cluster {plan.cluster!r}")
    return plan


def require_applicable(
    plan: DeletionPlan, *, kafka_cluster_id: str | None, now: datetime, approved_digest: str | None = None
) -> None:
    """Raise ``PlanError`` unless the plan may be applied to this cluster now.

    :param plan: the plan.
    :param kafka_cluster_id: the id that the cluster reports now.
    :param now: the current time.
    :param approved_digest: the approved digest, if approval was required.
    """
    if not kafka_cluster_id or plan.kafka_cluster_id != kafka_cluster_id:
        raise PlanError(
            f"plan {plan.plan_id} was made for Kafka cluster {plan.kafka_cluster_id!r}, this one is "
            f"{kafka_cluster_id!r}: check the connection"
        )
    if now < plan.created_at - _CLOCK_SLACK:
        raise PlanError(
            f"plan {plan.plan_id} was made at {plan.created_at.isoformat()}, and the clock says {now.isoformat()}: "
            "mend the clock"
        )
    if now >= plan.expires_at:
        raise PlanError(
            f"plan {plan.plan_id} expired at {plan.expires_at.isoformat()}: take a snapshot, make a new one"
        )
    if approved_digest is not None and approved_digest != plan.digest:
        raise PlanError(f"plan {plan.plan_id} is not the approved one (its digest differs): approve it again")


def check_digest(field_name: str, value: object) -> str:
    """Return the digest, or raise ``ConfigurationError`` for what is none."""
    if not isinstance(value, str) or not is_digest(value):
        raise ConfigurationError(field_name, value, "must be the plan's digest: 64 hexadecimal digits")
    return value


def _as_json(item: PlannedGroup | KeptGroup) -> dict[str, Any]:
    content = {name: getattr(item, name) for name in item.__slots__}
    if content.get("forecast", True) is None:
        del content["forecast"]  # so that plans without forecasts keep their digest
    return content
