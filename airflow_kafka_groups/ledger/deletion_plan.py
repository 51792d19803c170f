"""The deletion plan: what to delete and the reasons, fixed by a digest, so that what was approved is deleted.

A plan is of groups, or of topics whose offsets live groups are to lose. It is written once and never changed, as two
files: the groups as columns, and a small JSON header that is written last. The header has the SHA-256 of the groups'
file, and the plan's digest is that of the header: an edit of either breaks it, and the plan is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

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
    name_of,
    read_columns,
    read_rows,
    write_rows,
)
from airflow_kafka_groups.observe.cluster_log import ClusterLog, EntryKind
from airflow_kafka_groups.observe.cluster_view import HIDDEN_TOPICS, ClusterView, check_view, recorded_view
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError, check_format, digest_of, plain, read_model
from airflow_kafka_groups.storage.json_files import elsewhere, json_bytes, parse_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, PLANS
from airflow_kafka_groups.storage.schemas import PLAN_COLUMNS, utc_times

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

NAMED_BY_HAND = "explicit"
"""The snapshot id in a plan of groups that were named: nobody has judged their idle time."""
PRUNING = "prune-topics"
"""The kind of a plan of topics, in its header and in the records of its runs."""
_REQUIRED = ("group_id", "reason", "group_type", "protocol_type", "state", "partitions", "fingerprint")
_REQUIRED_OF_TOPICS = ("topic", "idle_since", "idle_seconds", "observations")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """A plan without its groups.

    :param cluster: the folder of the cluster.
    :param kafka_cluster_id: the id that the brokers report.
    :param expires_at: when it becomes unusable.
    :param policy: the limits that it was made within.
    :param counts: all groups in numbers.
    :param prunes: whether it is of topics. Default: of groups.
    :param view: what the snapshot's connection saw of the cluster. Default: not known.
    :param evidence: what the judgement rests on, with a sentence for people; ``None`` for groups that were named.
    :param families: the families of groups in numbers.
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
    prunes: bool = False
    view: ClusterView | None = None
    evidence: Mapping[str, Any] | None = None
    families: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(PlanHeader):
    """A plan of groups, or of topics of groups.

    :param groups: what it deletes, longest idle first.
    :param kept: what it does not delete, sorted.

    ``body`` is the file of the groups, and ``digest`` that of everything in it.
    """

    groups: Sequence[PlannedGroup]
    kept: Sequence[KeptGroup]
    body: bytes = field(init=False, repr=False, compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        try:
            groups, kept = self.groups, self.kept
            groups = groups if isinstance(groups, PlannedGroups) else PlannedGroups.of(groups)
            kept = kept if isinstance(kept, KeptGroups) else KeptGroups.of(kept)
            self._set(groups=groups, kept=kept, body=write_rows(groups, kept))
            self._check()
            self._set(digest=digest_of(self._header()))
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise PlanError(f"plan {self.plan_id} cannot be written: {type(exc).__name__}: {exc}") from exc

    def _check(self) -> None:
        """Raise ``PlanError`` for a planned group or topic that lacks something, or that is named twice."""
        import pyarrow.compute as pc

        table, what = self.planned.table, "a topic of a group" if self.prunes else "a group"
        distinct = len(set(self.group_ids)) if self.prunes else pc.count_distinct(table["group_id"]).as_py()
        if distinct != len(table):
            raise PlanError(f"plan {self.plan_id} names {what} twice")
        for name in (*_REQUIRED, *(_REQUIRED_OF_TOPICS if self.prunes else ())):
            if table[name].null_count:
                raise PlanError(f"plan {self.plan_id} has {what} without its {name}")
        if not self.prunes and table["topic"].null_count != len(table):
            raise PlanError(f"plan {self.plan_id} is of groups, and names a topic")
        if not pc.all(pc.is_finite(table["idle_seconds"]), min_count=0).as_py():
            raise PlanError(f"plan {self.plan_id} cannot be written: an idle time is not finite")
        sealed = pc.match_substring_regex(table["fingerprint"], r"^[0-9a-f]{64}$")
        if self.prunes:
            sealed = pc.and_(sealed, pc.greater(table["partitions"], literal(0)))
        if (first := pc.index(sealed, literal(False)).as_py()) >= 0:  # the value, not a switch
            raise PlanError(f"plan {self.plan_id}: {self.group_ids[first]!r} has no offsets, or no fingerprint of them")

    @property
    def judged(self) -> bool:
        """Whether it was made by verdicts or snapshots, so that idle times count."""
        return self.snapshot_id != NAMED_BY_HAND

    @property
    def noun(self) -> str:
        """What ``groups`` are, in messages."""
        return "topics" if self.prunes else "groups"

    @property
    def planned(self) -> PlannedGroups:
        """What it deletes, as columns."""
        return cast("PlannedGroups", self.groups)

    @property
    def all_kept(self) -> KeptGroups:
        """What it keeps, as columns."""
        return cast("KeptGroups", self.kept)

    @property
    def touched(self) -> list[str]:
        """The ids of the groups that it touches, each once."""
        return list(dict.fromkeys(self.planned.column("group_id")))

    @property
    def group_count(self) -> int:
        """The number of groups that it touches."""
        return len(self.touched)

    @property
    def group_ids(self) -> list[str]:
        """The names of what it deletes, as the journal has them, longest idle first."""
        ids = self.planned.column("group_id")
        return list(map(name_of, ids, self.planned.column("topic"))) if self.prunes else ids

    def targets(self) -> Iterator[Target]:
        """Yield what it deletes, and what that has to look like still."""
        return self.planned.targets()

    @property
    def idle_from(self) -> datetime | None:
        """Since when the first of what it deletes is idle; ``None`` if it is not known of any."""
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
        """The names of the rules that demand an approval, and that decided about what it deletes or may match it."""
        demanding = [rule.name for rule in self.policy.rules if rule.approval]
        if not demanding:
            return []
        if self.prunes:
            used = set(self.planned.column("rule"))
            return [name for name in demanding if name in used]
        hidden = self.policy.allow_hidden_topics
        return demanding_approval(self.policy.rules, self.decided, topics_hidden=hidden)

    @property
    def decided(self) -> list[RuleFacts]:
        """The facts about what it deletes that rules are matched against."""
        names = ("group_id", "group_type", "owner", "rule")
        columns = zip(*map(self.planned.column, names), strict=True)
        return [RuleFacts(id_, kind, owner, rule=rule) for id_, kind, owner, rule in columns]

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

    def to_json(self) -> dict[str, Any]:
        """Return the plan's header as docs/formats.md shows it."""
        return {**self._header(), "digest": self.digest}

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{each.name: plain(getattr(self, each.name)) for each in fields(PlanHeader)},
            "groups": len(self.groups),
            "kept": len(self.kept),
            "body": {
                "name": f"{self.plan_id}.parquet",
                "bytes": len(self.body),
                "sha256": hashlib.sha256(self.body).hexdigest(),
            },
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
        _check_header(data)
        plan = cls.__new__(cls)
        with unless_damaged(PlanError, f"plan {data.get('plan_id')!r}"):
            _check_body(data, body)
            groups, kept = read_rows(body)
            header = read_model(PlanHeader, {each.name: data[each.name] for each in fields(PlanHeader)}, exactly=True)
            recorded_view(data["view"], "it")
            plan._set(**{each.name: getattr(header, each.name) for each in fields(header)})
            plan._set(groups=groups, kept=kept, body=body, digest=data["digest"])
            plan._check()
        if plan.to_json() != data:
            raise PlanError(f"plan {plan.plan_id!r} differs when read back: make a new plan")
        return plan


def save_plan(layout: Layout, plan: DeletionPlan) -> StoragePath:
    """Write a plan, and return its header's path.

    Raises ``PlanError`` if it belongs to another cluster or its id exists; ``JournalError`` and ``StorageError``.
    """
    path = layout.plan(plan.plan_id, prunes=plan.prunes)
    if plan.cluster != layout.cluster:
        raise PlanError(f"plan {plan.plan_id} is for cluster {plan.cluster!r}, not for {layout.cluster!r}")
    if FILES.read(path) is not None:
        raise PlanError(f"{path} exists: plans are never changed, make a new one")
    log_plan(layout, plan)
    try:
        FILES.create(layout.plan_body(plan.plan_id, prunes=plan.prunes), plan.body)
        FILES.create(path, json_bytes(plan.to_json()))
    except FileExistsAlreadyError as exc:
        raise PlanError(f"{exc}: plans are never changed, make a new one") from exc
    return path


def log_plan(layout: Layout, plan: DeletionPlan) -> None:
    """Add a plan to the log of its cluster, before it is written: without this entry, nobody can apply it."""
    by = None if plan.view is None else plan.view.connection.identity
    facts = {"plan_digest": plan.digest, "at": plan.created_at.isoformat(), "identity": by}
    about = {"kind": EntryKind.PLAN, "folder": layout.cluster, "plan_id": plan.plan_id}
    ClusterLog(layout.base, plan.kafka_cluster_id).add({**about, **facts})


def load_plan(layout: Layout, plan_id: str, *, prunes: bool = False) -> DeletionPlan:
    """Read a plan and verify its digest. Raises ``PlanError`` and ``StorageError``.

    :param prunes: whether it is one of topics. Default: of groups.
    """
    plan = DeletionPlan.from_json(*_read(layout, plan_id, prunes=prunes))
    if (plan.plan_id, plan.cluster, plan.prunes) != (plan_id, layout.cluster, prunes):
        of = f"{layout.plan(plan_id, prunes=prunes)} contains plan {plan.plan_id!r} of cluster {plan.cluster!r}"
        raise PlanError(f"{of}, which is of {plan.noun}: {elsewhere(plan.cluster, layout.cluster)}")
    return plan


def newest_plan(layout: Layout) -> str | None:
    """Return the newest plan that was made by verdicts; ``None`` if there is none.

    Raises ``PlanError`` and ``StorageError``.
    """
    newest_first = sorted(FILES.ids(layout.root / PLANS), reverse=True)
    judged = (id_ for id_ in newest_first if _read_header(layout.plan(id_)).get("snapshot_id") != NAMED_BY_HAND)
    return next(judged, None)


def find_in_plan(layout: Layout, plan_id: str, group_id: str) -> PlannedGroup | KeptGroup | None:
    """Return what a plan says of one group, ``None`` if it does not name it.

    Raises ``PlanError`` and ``StorageError``.
    """
    table = planned_columns(layout, plan_id, [each.name for each in PLAN_COLUMNS])
    return next(iter(find_rows(table, group_id)), None)


def planned_columns(layout: Layout, plan_id: str, names: Sequence[str]) -> Any:
    """Return columns of all groups that a plan names, sorted by id. Raises ``PlanError`` and ``StorageError``.

    :param names: of the columns in ``PLAN_COLUMNS``.
    """
    data, body = _read(layout, plan_id)
    _check_header(data)
    with unless_damaged(PlanError, f"plan {plan_id!r}"):
        _check_body(data, body)
        return read_columns(body, names)


def _read(layout: Layout, plan_id: str, *, prunes: bool = False) -> tuple[dict[str, Any], bytes]:
    data = _read_header(layout.plan(plan_id, prunes=prunes))
    place = layout.plan_body(plan_id, prunes=prunes)
    body = FILES.read(place)
    if body is None:
        raise PlanError(f"the groups of the plan are missing: there is no {place}")
    return data, body


def _read_header(path: StoragePath) -> dict[str, Any]:
    """Read the JSON of a plan without checking it. Raises ``PlanError`` and ``StorageError``."""
    content = FILES.read(path)
    if content is None:
        raise PlanError(f"the plan is missing: there is no {path}. Check its id, storage_path and cluster")
    return parse_json(content, path, "the plan", PlanError)


def _check_header(data: Mapping[str, Any]) -> None:
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


def _check_body(data: Mapping[str, Any], body: bytes) -> None:
    """Raise ``PlanError`` unless a plan's header vouches for this file with its groups."""
    sealed = data["body"]
    if sealed["name"] != f"{data['plan_id']}.parquet":
        raise PlanError(f"plan {data['plan_id']!r} is damaged: it names the file {sealed['name']!r}")
    if hashlib.sha256(body).hexdigest() != sealed["sha256"]:
        raise PlanError(
            f"plan {data['plan_id']!r}: the groups in {sealed['name']} are not those of the plan (its SHA-256 differs "
            "from the header's): make a new plan"
        )


def least_idle_times(plan: DeletionPlan) -> dict[str, float]:
    """Return the idle time that what is planned had to have, in seconds, by name: by the rules that may match it."""
    if plan.prunes:
        asked = {rule.name: rule.min_idle_seconds for rule in plan.policy.rules}
        names = zip(plan.group_ids, plan.planned.column("rule"), strict=True)
        return {name: asked.get(rule, plan.policy.min_idle_seconds) for name, rule in names}
    before = plan.policy.rules_before()
    return {group.group_id: before.most(group, lambda rule: rule.min_idle_seconds) for group in plan.decided}


def policy_of_plan(layout: Layout, plan_id: str, *, prunes: bool = False) -> PlanPolicy:
    """Return the policy of a plan without reading its groups. Raises ``PlanError`` and ``StorageError``."""
    data = _read_header(layout.plan(plan_id, prunes=prunes))
    _check_header(data)
    with unless_damaged(PlanError, f"plan {plan_id!r}"):
        return read_model(PlanPolicy, data["policy"], exactly=True)


def require_applicable(plan: DeletionPlan, *, kafka_cluster_id: str | None, now: datetime) -> None:
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


async def require_here(
    admin: MaintenanceClient, plan: DeletionPlan, kafka_cluster_id: str | None, now: datetime
) -> tuple[str, ...]:
    """Raise ``PlanError`` unless a plan may be applied to the cluster that a client leads to; return warnings.

    Called before anything is backed up or deleted. The arguments are those of ``require_applicable``.
    """
    require_applicable(plan, kafka_cluster_id=kafka_cluster_id, now=now)
    return await check_view(admin, plan.plan_id, plan.view)


async def require_all_seen(admin: MaintenanceClient, plan: DeletionPlan) -> None:
    """Raise ``PlanError`` if topics may be hidden from this user now, and the plan does not allow it.

    The snapshot's user saw them. Commits to topics that this one may not see are missing in every reading.
    """
    if not (plan.policy.allow_hidden_topics or await admin.sees_all_topics()):
        raise PlanError(f"plan {plan.plan_id}: {HIDDEN_TOPICS}")
