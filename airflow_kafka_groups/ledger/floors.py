"""What a site demands of every clean-up, whatever a DAG, a run's conf or a form says.

Floors come from Airflow's configuration (``[kafka_groups]``) and from the connection; where both say something the
stricter one counts. Nobody who may only trigger DAGs can change either. A plan is made within them and names those that
bound it; a deletion checks the plan against them once more, since they may have been raised in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.judge.policy.plan_policy import DAY_SECONDS, PlanPolicy, share_of
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.ledger.approval_rules import ABOVE_CAP, ALWAYS, ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile

T = TypeVar("T", int, float, frozenset[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFloors:
    """The limits of a site; ``None`` sets no limit.

    :param min_idle_seconds: least idle time of a group that is deleted, in seconds. With it, no plan is applied by a
        snapshot that is older than a day.
    :param max_groups: most groups of one plan or deletion by name.
    :param max_share: largest share of all groups in one plan or deletion by name, above 0 and at most 1.
    :param approve_above: a plan of more groups than this has to be approved by a person; 0 for every plan. Default with
        ``approvers``: 0.
    :param approvers: the ids of the only Airflow users whose approval counts, wherever it was given.
    :param dry_run_only: whether nothing may be deleted at all.
    :param named_deletions: whether groups may be deleted by name, without a plan. Default: unless
        ``min_idle_seconds``, ``require_commit_log`` or ``policy_file`` is set, since nobody has judged them. Only the
        place that sets these can allow it.
    :param ignore_signs_of_life: whether a deletion by name may ignore signs of life that are known. Default: unless
        ``min_idle_seconds`` is set. Only the place that sets it can allow it.
    :param storage_path: the only storage that may be used.
    :param require_commit_log: whether nothing may be planned unless the job read the log of commits.
    :param policy_file: the only policy file that plans and deletions may use; with it, groups are not deleted by
        name unless ``named_deletions`` allows it.
    """

    min_idle_seconds: float | None = None
    max_groups: int | None = None
    max_share: float | None = None
    approve_above: int | None = None
    approvers: frozenset[str] | None = None
    dry_run_only: bool = False
    named_deletions: bool | None = None
    ignore_signs_of_life: bool | None = None
    storage_path: str | None = None
    require_commit_log: bool = False
    policy_file: str | None = None

    def __post_init__(self) -> None:
        if self.min_idle_seconds is not None:
            check_seconds("min_idle_seconds", self.min_idle_seconds)
        if self.max_groups is not None:
            check_integer("max_groups", self.max_groups, 1, "give a whole number of groups, at least 1")
        if self.max_share is not None and not 0 < check_number("max_share", self.max_share) <= 1:
            raise ConfigurationError("max_share", self.max_share, "give a share above 0 and at most 1, such as 0.5")
        if self.approve_above is not None:
            check_integer("approve_above", self.approve_above, 0, "give a whole number of groups, 0 or more")

    def stricter(self, other: SiteFloors) -> SiteFloors:
        """Return the stricter of two floors, limit by limit. Raises ``ConfigurationError`` for two storages."""
        for name in ("storage_path", "policy_file"):
            one, two = getattr(self, name), getattr(other, name)
            if None not in (one, two) and one != two:
                raise ConfigurationError(f"floors.{name}", two, f"the site and the connection differ: {one!r}")
        approvers = _pick(frozenset.__and__, self.approvers, other.approvers)
        if approvers is not None and not approvers:
            raise ConfigurationError("floors.approvers", None, "the site and the connection have no approver in common")
        return SiteFloors(
            min_idle_seconds=_pick(max, self.min_idle_seconds, other.min_idle_seconds),
            max_groups=_pick(min, self.max_groups, other.max_groups),
            max_share=_pick(min, self.max_share, other.max_share),
            approve_above=_pick(min, self.approved_above, other.approved_above),
            approvers=approvers,
            dry_run_only=self.dry_run_only or other.dry_run_only,
            named_deletions=_allowed(self._allows_names, other._allows_names),
            ignore_signs_of_life=_allowed(self._may_ignore_signs, other._may_ignore_signs),
            storage_path=self.storage_path or other.storage_path,
            require_commit_log=self.require_commit_log or other.require_commit_log,
            policy_file=self.policy_file or other.policy_file,
        )

    @property
    def approved_above(self) -> int | None:
        """The most groups that are deleted without an approval. Who names approvers wants to be asked."""
        return 0 if self.approve_above is None and self.approvers is not None else self.approve_above

    @property
    def _allows_names(self) -> bool | None:
        judged = self.min_idle_seconds is not None or self.require_commit_log or self.policy_file is not None
        return False if judged and self.named_deletions is None else self.named_deletions

    @property
    def _may_ignore_signs(self) -> bool | None:
        implied = None if self.min_idle_seconds is None else False
        return implied if self.ignore_signs_of_life is None else self.ignore_signs_of_life

    @property
    def limits_deletions(self) -> bool:
        """Whether a deletion is limited by anything that another storage, with a journal of its own, would evade."""
        others = replace(self, dry_run_only=False, storage_path=None, ignore_signs_of_life=None)
        return others not in (SiteFloors(), SiteFloors(named_deletions=True)) or self.ignore_signs_of_life is False

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for what makes the floors weak."""
        if self.storage_path is not None or not self.limits_deletions:
            return ()
        return (
            "the site sets floors but no storage_path: whoever triggers a run can choose another storage, whose "
            "journal does not know what was deleted or found in use. Set the floor storage_path",
        )

    def within(self, policy: PlanPolicy, file: PolicyFile | None, cluster: str) -> tuple[PlanPolicy, tuple[str, ...]]:
        """Return the policy that a plan is made by, and a sentence for each floor that changed it.

        :param policy: the limits that were asked for.
        :param file: the policy file whose rules decide; ``None`` for none.

        Raises ``PolicyError`` for a file of other clusters, and ``PlanError`` for another file than the site's.
        """
        if file is not None:
            file.require_cluster(cluster)
            policy = policy.by_file(file)
        self.require_policy(policy)
        return self.bind(policy)

    def bind(self, policy: PlanPolicy) -> tuple[PlanPolicy, tuple[str, ...]]:
        """Return the policy within the floors, and a sentence for each floor that changed it."""
        bound: list[str] = []
        changes: dict[str, Any] = {}
        limits: dict[str, tuple[float | None, Callable[..., float]]] = {
            "min_idle_seconds": (self.min_idle_seconds, max),
            "max_groups": (self.max_groups, min),
            "max_share": (self.max_share, min),
            # An old snapshot with a long-lived plan would undercut the idle time: it shows nothing of what came later.
            "max_plan_age_seconds": (None if self.min_idle_seconds is None else DAY_SECONDS, min),
        }
        for name, (floor, pick) in limits.items():
            wanted = getattr(policy, name)
            if floor is not None and pick(floor, wanted) != wanted:
                changes[name] = floor
                bound.append(f"the site's {name} of {floor:g} counts instead of {wanted:g}")
        if policy.rules and self.min_idle_seconds is not None:
            rules, short = _lengthened(policy.rules, self.min_idle_seconds)
            if short:
                changes["rules"] = rules
                names = ", ".join(repr(name) for name in short)
                bound.append(f"the site's min_idle_seconds of {self.min_idle_seconds:g} counts in the rule(s) {names}")
        if self.require_commit_log and not policy.require_commit_log:
            changes["require_commit_log"] = True
            bound.append("the site requires the log of commits (require_commit_log)")
        return replace(policy, **changes), tuple(bound)

    def approval(self, terms: ApprovalTerms | None, plan: DeletionPlan | None = None) -> ApprovalTerms:
        """Return when a plan has to be approved, as asked for, above the site's number and by its rules; and by whom.

        :param terms: as asked for. Default: never.
        :param plan: the plan, if its rules count. Default: they do not.
        """
        terms = replace(terms or ApprovalTerms(), approvers=self.approvers)
        if plan is not None and plan.rules_to_approve:
            return replace(terms, rule=ALWAYS)
        if (most := self.approved_above) is None or terms.rule == ALWAYS:
            return terms
        asked = terms.approve_above if terms.rule == ABOVE_CAP else most
        return replace(terms, rule=ABOVE_CAP, approve_above=min(most, asked))

    def require(self, plan: DeletionPlan, *, dry_run: bool) -> None:
        """Raise ``PlanError`` unless a plan may be applied: it may have been made before a floor was raised."""
        if dry_run:
            return
        self.require_deletions()
        self.require_policy(plan.policy)
        _, bound = self.bind(plan.policy)
        if bound:
            raise PlanError(f"plan {plan.plan_id} undercuts what the site demands ({'; '.join(bound)}): make a new one")
        if self.max_groups is not None and plan.group_count > self.max_groups:
            raise PlanError(f"plan {plan.plan_id} has {plan.group_count} groups, the site allows {self.max_groups}")

    def require_policy(self, policy: PlanPolicy) -> None:
        """Raise ``PlanError`` for another policy file than the site's, or none."""
        self.require_policy_file(None if policy.file is None else policy.file.path)

    def require_policy_file(self, found: str | None) -> None:
        """Raise ``PlanError`` for another policy file than the site's, or none; before it is read."""
        if self.policy_file is not None and found != self.policy_file:
            raise PlanError(
                f"the site plans by the policy {self.policy_file!r} only (its floor policy_file), not by {found!r}: "
                "set policy_file"
            )

    def require_deletions(self) -> None:
        """Raise ``PlanError`` where the site allows dry runs only."""
        if self.dry_run_only:
            raise PlanError("the site allows dry runs only (dry_run_only); nothing was deleted")

    def require_named(self, groups: int, *, dry_run: bool, ignore_signs_of_life: bool = False) -> None:
        """Raise ``PlanError`` where groups may not be deleted by name, not so many without an approval, or not so."""
        if dry_run:
            return
        self.require_deletions()
        if self._allows_names is False:
            raise PlanError("the site allows no deletion by name (named_deletions): delete by a plan")
        if ignore_signs_of_life and self._may_ignore_signs is False:
            raise PlanError("the site lets no deletion ignore signs of life (its floor ignore_signs_of_life)")
        for name, most in (("max_groups", self.max_groups), ("approve_above", self.approved_above)):
            if most is not None and groups > most:
                raise PlanError(f"{groups} groups are named, and the site's {name} is {most}: delete by a plan")

    def require_share(self, groups: int, of: int, *, dry_run: bool) -> None:
        """Raise ``PlanError`` where the named groups are a larger share of all groups than the site allows."""
        if not dry_run and self.max_share is not None and groups > share_of(of, self.max_share):
            raise PlanError(
                f"{groups} of {of} groups are named, and the site's max_share is {self.max_share:.12g}: "
                "delete by a plan"
            )

    def require_storage(self, storage_path: str) -> None:
        """Raise ``ConfigurationError`` for another storage than the site's."""
        if self.storage_path is not None and storage_path.rstrip("/") != self.storage_path.rstrip("/"):
            raise ConfigurationError(
                "storage_path",
                storage_path,
                f"the site keeps plans, backups and the journal in {self.storage_path!r} (its "
                "floor storage_path; where it has other floors only, the storage_path of KAFKA_GROUPS_DEFAULTS)",
            )

    def require_inside(self, place: str, storage: str) -> None:
        """Raise ``ConfigurationError`` for a result outside of the site's storage: somebody else may have written it.

        :param storage: the storage, spelt as the place is.
        """
        inside = place.startswith(f"{storage.rstrip('/')}/") and ".." not in place.split("/")
        if self.storage_path is not None and not inside:
            remedy = f"must be in the site's storage {self.storage_path!r} (its floor storage_path): let the job write"
            raise ConfigurationError("result_path", place, f"{remedy} its result there")


NO_FLOORS = SiteFloors()


def _lengthened(rules: Sequence[Rule], least: float) -> tuple[tuple[Rule, ...], list[str]]:
    """Return the rules with at least this idle time where they delete or prune, and the names of those with less."""
    short = [rule.name for rule in rules if (rule.deletes or rule.prunes) and rule.min_idle_seconds < least]
    longer = (replace(rule, min_idle_seconds=least) if rule.name in short else rule for rule in rules)
    return tuple(longer), short


def _allowed(one: bool | None, other: bool | None) -> bool | None:
    return False if False in (one, other) else one or other


def _pick(pick: Callable[[T, T], T], one: T | None, other: T | None) -> T | None:
    if one is None or other is None:
        return other if one is None else one
    return pick(one, other)
