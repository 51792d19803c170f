"""The plan of a pruning: whose offsets of which topics to delete, and the evidence, fixed by a digest.

It is one JSON file, written once and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from airflow_kafka_groups.checks import is_digest
from airflow_kafka_groups.exceptions import FileExistsAlreadyError, PlanError
from airflow_kafka_groups.ledger.plan_rows import Target, name_of
from airflow_kafka_groups.ledger.sealed_plan import SealedPlan, check_header, log_plan, read_header, read_terms
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, digest_of
from airflow_kafka_groups.storage.json_files import json_bytes
from airflow_kafka_groups.storage.layout import Layout, StoragePath

KIND = "prune-topics"


class KeptTopic(StrEnum):
    """Why a topic that nobody in its group is subscribed to is kept."""

    MISSING = "topic_missing"
    GROUP_IDLE = "group_idle"
    SETTLING = "settling"
    PROTECTED = "protected"
    EXCLUDED = "excluded"
    BY_RULE = "by_rule"
    NOTICE = "notice"
    KIND = "wrong_kind"
    DOUBT = "doubt"
    OVER_CAP = "over_cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic of a group whose offsets are to be deleted.

    :param partitions: the partitions with a committed offset.
    :param fingerprint: of these offsets.
    :param idle_since: the oldest snapshot since which nobody was subscribed to it and its offsets did not change.
    :param observations: the number of snapshots that prove it.
    :param subscribed: the number of topics that the group is subscribed to.
    :param moved_after: the snapshot after which the offsets of a subscribed topic changed.
    """

    group_id: str
    topic: str
    group_type: str
    protocol_type: str
    partitions: tuple[int, ...]
    fingerprint: str
    idle_since: str
    idle_seconds: float
    observations: int
    subscribed: int
    moved_after: str
    rule: str | None
    owner: str | None
    reason: str

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return name_of(self.group_id, self.topic)

    @property
    def target(self) -> Target:
        """What it has to look like still."""
        return Target(self.group_id, self.group_type, self.protocol_type, self.fingerprint, topic=self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToKeep:
    """A topic that nobody in its group is subscribed to, and that is kept; ``verdict`` is a ``KeptTopic``."""

    group_id: str
    topic: str
    verdict: str
    reason: str
    rule: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan(SealedPlan):
    """A plan of topics, in ``groups``: the name is what approvals count."""

    groups: Sequence[PlannedTopic]
    kept: Sequence[TopicToKeep]

    noun: ClassVar[str] = "topics"

    def __post_init__(self) -> None:
        names = self.group_ids
        if len(set(names)) != len(names):
            raise PlanError(f"plan {self.plan_id} names a topic of a group twice")
        for item in self.groups:
            if not item.partitions or not is_digest(item.fingerprint):
                raise PlanError(f"plan {self.plan_id}: {item.name!r} has no offsets, or no fingerprint of them")
        object.__setattr__(self, "digest", digest_of(self._content()))

    @property
    def touched(self) -> list[str]:
        """The ids of the groups with topics to prune."""
        return list(dict.fromkeys(item.group_id for item in self.groups))

    @property
    def group_ids(self) -> list[str]:
        """The names of the topics to prune."""
        return [item.name for item in self.groups]

    def targets(self) -> Iterator[Target]:
        """Yield what it deletes."""
        return (item.target for item in self.groups)

    @property
    def rules_to_approve(self) -> list[str]:
        """The names of the rules that demand an approval, and that decided about a planned topic."""
        used = {item.rule for item in self.groups}
        return [rule.name for rule in self.policy.rules if rule.approval and rule.name in used]

    @property
    def partitions(self) -> int:
        """The number of partitions to prune."""
        return sum(len(item.partitions) for item in self.groups)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as docs/formats.md shows it."""
        return {**self._content(), "digest": self.digest}

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": KIND,
            **self._terms(),
            "topics": [{**asdict(item), "partitions": list(item.partitions)} for item in self.groups],
            "kept": [asdict(item) for item in self.kept],
            "view": None if self.view is None else self.view.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PrunePlan:
        """Parse a plan. Raises ``PlanError`` if it was changed after it was made, or something is missing."""
        check_header(data)
        with unless_damaged(PlanError, f"plan {data.get('plan_id')!r}"):
            if data["kind"] != KIND:
                raise ValueError(f"its kind is {data['kind']!r}")
            plan = cls(
                **read_terms(data),
                groups=[PlannedTopic(**{**item, "partitions": tuple(item["partitions"])}) for item in data["topics"]],
                kept=[TopicToKeep(**item) for item in data["kept"]],
            )
        if plan.digest != data["digest"]:
            raise PlanError(f"plan {plan.plan_id!r} differs when read back: make a new plan")
        return plan


def save_prune_plan(layout: Layout, plan: PrunePlan) -> StoragePath:
    """Write a plan, and return its path.

    Raises ``PlanError`` if its id exists, ``JournalError`` and ``StorageError``.
    """
    path = layout.prune_plan(plan.plan_id)
    log_plan(layout, plan)
    try:
        FILES.create(path, json_bytes(plan.to_json()))
    except FileExistsAlreadyError as exc:
        raise PlanError(f"{exc}: plans are never changed, make a new one") from exc
    return path


def load_prune_plan(layout: Layout, plan_id: str) -> PrunePlan:
    """Read a plan and verify its digest. Raises ``PlanError`` and ``StorageError``."""
    path = layout.prune_plan(plan_id)
    plan = PrunePlan.from_json(read_header(path))
    plan.require_place(path, plan_id, layout.cluster)
    return plan
