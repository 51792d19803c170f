"""What every plan of deletions has: who made it when, for which cluster, and the digest that seals its groups."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.plan_rows import PlannedGroups, Target
from airflow_kafka_groups.observe.cluster_log import ClusterLog, EntryKind
from airflow_kafka_groups.observe.cluster_view import HIDDEN_TOPICS, ClusterView, check_view, recorded_view
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import UnknownFormatError, check_format, digest_of
from airflow_kafka_groups.storage.json_files import elsewhere, parse_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, parse_time, plan_body

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

_REQUIRED = ("group_id", "reason", "group_type", "protocol_type", "state", "partitions", "fingerprint")


def check_header(data: Mapping[str, Any]) -> None:
    """Raise ``PlanError`` unless a plan has the known format, and the digest of all the rest."""
    try:
        check_format(data)
    except UnknownFormatError as exc:
        raise PlanError(f"plan {data.get('plan_id')!r} cannot be read: {exc}") from exc
    with unless_damaged(PlanError, f"plan {data.get('plan_id')!r}"):  # by what no writer writes, such as NaN
        digest = digest_of(data)
    if digest != data.get("digest"):
        raise PlanError(
            f"plan {data.get('plan_id')!r} was changed after it was made (digest mismatch): make a new plan"
        )


def check_body(data: Mapping[str, Any], body: bytes) -> None:
    """Raise ``PlanError`` unless a plan's header vouches for this file with its groups."""
    sealed = data["body"]
    if sealed["name"] != body_name(data["plan_id"]):
        raise PlanError(f"plan {data['plan_id']!r} is damaged: it names the file {sealed['name']!r}")
    if hashlib.sha256(body).hexdigest() != sealed["sha256"]:
        raise PlanError(
            f"plan {data['plan_id']!r}: the groups in {sealed['name']} are not those of the plan (its SHA-256 differs "
            "from the header's): make a new plan"
        )


def body_name(plan_id: str) -> str:
    """Return the name of the file with a plan's groups."""
    return plan_body(plan_id).rpartition("/")[2]


def check_groups(plan_id: str, groups: PlannedGroups) -> None:
    """Raise ``PlanError`` for a planned group that lacks something, or that is named twice."""
    import pyarrow.compute as pc

    table = groups.table
    if pc.count_distinct(table["group_id"]).as_py() != len(table):
        raise PlanError(f"plan {plan_id} names a group twice")
    for name in _REQUIRED:
        if table[name].null_count:
            raise PlanError(f"plan {plan_id} has a group without its {name}")
    if not pc.all(pc.is_finite(table["idle_seconds"]), min_count=0).as_py():
        raise PlanError(f"plan {plan_id} cannot be written: an idle time is not finite")
    sealed = pc.match_substring_regex(table["fingerprint"], r"^[0-9a-f]{64}$")
    if (first := pc.index(sealed, literal(False)).as_py()) >= 0:  # the value, not a switch
        group_id = table["group_id"][first].as_py()
        raise PlanError(f"plan {plan_id}: group {group_id!r} has no fingerprint of its offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPlan(ABC):
    """A plan of groups to delete, or of topics of groups to prune.

    :param cluster: the folder of the cluster.
    :param kafka_cluster_id: the id that the brokers report.
    :param expires_at: when it becomes unusable.
    :param policy: the limits that it was made within.
    :param counts: all groups in numbers.
    :param groups: what it deletes, longest idle first.
    :param kept: what it does not delete, sorted.
    :param view: what the snapshot's connection saw of the cluster. Default: not known.

    ``digest`` is that of everything in it.
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
    groups: Sequence[Any]
    kept: Sequence[Any]
    view: ClusterView | None = None
    digest: str = field(init=False)

    noun: ClassVar[str] = "groups"
    """What ``groups`` are, in messages."""

    @property
    @abstractmethod
    def touched(self) -> list[str]:
        """The ids of the groups that it touches, each once."""

    @property
    @abstractmethod
    def group_ids(self) -> list[str]:
        """The names of what it deletes, as the journal has them, longest idle first."""

    @property
    @abstractmethod
    def rules_to_approve(self) -> list[str]:
        """The names of the rules that demand an approval, and that decided about what it deletes or may match it."""

    @abstractmethod
    def targets(self) -> Iterator[Target]:
        """Yield what it deletes, and what that has to look like still."""

    @property
    def group_count(self) -> int:
        """The number of groups that it touches."""
        return len(self.touched)

    def summary(self) -> dict[str, Any]:
        """Return what is shown of it: its names, until when it is valid, its counts and its warnings."""
        return {
            "plan_id": self.plan_id,
            "digest": self.digest,
            "snapshot_id": self.snapshot_id,
            "expires_at": self.expires_at.isoformat(),
            "counts": dict(self.counts),
            "warnings": list(self.warnings),
        }

    def require_place(self, path: StoragePath, plan_id: str, cluster: str) -> None:
        """Raise ``PlanError`` if what was read from a path is not the plan with this id, of this cluster."""
        if (self.plan_id, self.cluster) != (plan_id, cluster):
            of = f"{path} contains plan {self.plan_id!r} of cluster {self.cluster!r}"
            raise PlanError(f"{of}: {elsewhere(self.cluster, cluster)}")

    def require_digest(self, digest: str) -> None:
        """Raise ``PlanError`` if another plan was asked for or approved: one with this digest."""
        if self.digest != digest:
            raise PlanError(
                f"plan {self.plan_id} is not the one that was asked for or approved (its digest differs): plan again"
            )

    def require_unprotected(self, protects: Callable[[str], bool]) -> None:
        """Raise ``PlanError`` if it touches a group that is protected by now.

        :param protects: whether the connection protects a group.
        """
        if protected := [group_id for group_id in self.touched if protects(group_id)]:
            raise PlanError(
                f"plan {self.plan_id} names {len(protected)} group(s) that the connection protects, first "
                f"{protected[0]!r}: make a new plan"
            )

    def _terms(self) -> dict[str, Any]:
        """Return the fields that all plans share, as JSON."""
        return {
            "plan_id": self.plan_id,
            "cluster": self.cluster,
            "kafka_cluster_id": self.kafka_cluster_id,
            "snapshot_id": self.snapshot_id,
            "created_at": self.created_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "policy": self.policy.to_json(),
            "counts": dict(self.counts),
            "warnings": list(self.warnings),
        }


def read_header(path: StoragePath) -> dict[str, Any]:
    """Read the JSON of a plan without checking it. Raises ``PlanError`` and ``StorageError``."""
    content = FILES.read(path)
    if content is None:
        raise PlanError(f"the plan is missing: there is no {path}. Check its id, storage_path and cluster")
    return parse_json(content, path, "the plan", PlanError)


def read_terms(data: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the fields that all plans share.

    Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``AttributeError`` for a damaged one.
    """
    return {
        "plan_id": data["plan_id"],
        "cluster": data["cluster"],
        "kafka_cluster_id": data["kafka_cluster_id"],
        "snapshot_id": data["snapshot_id"],
        "created_at": parse_time(data["created_at"]),
        "expires_at": parse_time(data["expires_at"]),
        "policy": PlanPolicy.from_json(data["policy"]),
        "counts": dict(data["counts"]),
        "warnings": tuple(data["warnings"]),
        "view": recorded_view(data.get("view"), "it"),
    }


def require_applicable(plan: SealedPlan, *, kafka_cluster_id: str | None, now: datetime) -> None:
    """Raise ``PlanError`` unless the plan may be applied to this cluster now.

    :param kafka_cluster_id: the id that the cluster reports now.
    """
    if not kafka_cluster_id or plan.kafka_cluster_id != kafka_cluster_id:
        raise PlanError(
            f"plan {plan.plan_id} was made for Kafka cluster {plan.kafka_cluster_id!r}, this one is "
            f"{kafka_cluster_id!r}: check the connection"
        )
    if now < plan.created_at - CLOCK_SLACK:
        raise PlanError(
            f"plan {plan.plan_id} was made at {plan.created_at.isoformat()}, and the clock says {now.isoformat()}: "
            "synchronize this machine's clock (NTP)"
        )
    if now >= plan.expires_at:
        raise PlanError(
            f"plan {plan.plan_id} expired at {plan.expires_at.isoformat()}: take a snapshot, make a new one"
        )


def log_plan(layout: Layout, plan: SealedPlan) -> None:
    """Add a plan to the log of its cluster, before it is written: without this entry, nobody can apply it.

    Raises ``JournalError`` and ``StorageError``.
    """
    by = None if plan.view is None else plan.view.connection.identity
    facts = {"plan_digest": plan.digest, "at": plan.created_at.isoformat(), "identity": by}
    about = {"kind": EntryKind.PLAN, "folder": layout.cluster, "plan_id": plan.plan_id}
    ClusterLog(layout.base, plan.kafka_cluster_id).add({**about, **facts})


async def require_here(
    admin: MaintenanceClient, plan: SealedPlan, kafka_cluster_id: str | None, now: datetime
) -> tuple[str, ...]:
    """Raise ``PlanError`` unless a plan may be applied to the cluster that a client leads to; return warnings.

    Called before anything is backed up or deleted. The arguments are those of ``require_applicable``.
    """
    require_applicable(plan, kafka_cluster_id=kafka_cluster_id, now=now)
    return await check_view(admin, plan.plan_id, plan.view)


async def require_all_seen(admin: MaintenanceClient, plan: SealedPlan) -> None:
    """Raise ``PlanError`` if topics may be hidden from this user now, and the plan does not allow it.

    The snapshot's user saw them. Commits to topics that this one may not see are missing in every reading.
    """
    if not (plan.policy.allow_hidden_topics or await admin.sees_all_topics()):
        raise PlanError(f"plan {plan.plan_id}: {HIDDEN_TOPICS}")
