"""What a site demands of every clean-up: plans are made within it, and refused where they undercut it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.ledger.approval_rules import ABOVE_CAP, ALWAYS, NEVER, ApprovalTerms
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from tests.unit.change.deletion.steps import cluster
from tests.unit.change.scene import POLICY, backed_up, delete_names, delete_plan, layout_in

pytestmark = pytest.mark.safety


@pytest.mark.parametrize(
    ("floors", "changed"),
    [
        (SiteFloors(min_idle_seconds=7_200), {"min_idle_seconds": 7_200}),
        (SiteFloors(min_idle_seconds=60), {}),
        (SiteFloors(max_groups=3), {"max_groups": 3}),
        (SiteFloors(max_groups=100_000), {}),
        (SiteFloors(max_share=0.25), {"max_share": 0.25}),
        (SiteFloors(require_commit_log=True), {"require_commit_log": True}),
        (NO_FLOORS, {}),
    ],
)
def test_a_plan_is_made_within_them_and_names_those_that_bound_it(floors: SiteFloors, changed: dict[str, Any]) -> None:
    policy, bound = floors.bind(POLICY)
    assert policy == replace(POLICY, **changed)
    assert [name in bound[0] for name in changed] == [True] * len(bound) == [True] * len(changed)


@pytest.mark.safety
def test_an_idle_time_is_not_undercut_by_an_old_snapshot() -> None:
    """A plan of last month, made to live for a year, shows nothing of what its groups did since."""
    long_lived = replace(POLICY, max_plan_age_seconds=30 * 86_400)
    policy, bound = SiteFloors(min_idle_seconds=60).bind(long_lived)
    assert policy.max_plan_age_seconds == 86_400
    assert "max_plan_age_seconds" in bound[0]
    assert NO_FLOORS.bind(long_lived) == (long_lived, ())


@pytest.mark.parametrize(
    ("floors", "why"),
    [
        (SiteFloors(min_idle_seconds=POLICY.min_idle_seconds + 1), "min_idle_seconds"),
        (SiteFloors(max_groups=1), "max_groups"),
        (SiteFloors(max_share=0.9), "max_share"),
        (SiteFloors(dry_run_only=True), "dry runs only"),
        (SiteFloors(approve_above=1), "nobody was asked"),
    ],
)
@pytest.mark.promise(9)
async def test_a_plan_that_undercuts_them_deletes_nothing(tmp_path: Path, floors: SiteFloors, why: str) -> None:
    """It may have been made before a floor was raised, or by another DAG."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    with pytest.raises(PlanError, match=why):
        await delete_plan(admin, layout, plan, floors=floors)
    assert sorted(admin.groups) == ["a", "b"]
    await delete_plan(admin, layout, plan, floors=floors, dry_run=True)
    await delete_plan(admin, layout, plan, floors=SiteFloors(approve_above=2))
    assert admin.groups == {}


@pytest.mark.parametrize(
    ("floors", "why"),
    [
        (SiteFloors(min_idle_seconds=60), "named_deletions"),
        (SiteFloors(require_commit_log=True), "named_deletions"),
        (SiteFloors(named_deletions=False), "named_deletions"),
        (SiteFloors(dry_run_only=True), "dry runs only"),
        (SiteFloors(max_groups=1), "max_groups"),
        (SiteFloors(approve_above=1), "approve_above"),
        (SiteFloors(approvers=frozenset({"42"})), "approve_above"),
    ],
)
@pytest.mark.promise(9)
async def test_groups_that_are_named_do_not_evade_them(tmp_path: Path, floors: SiteFloors, why: str) -> None:
    admin = cluster("a", "b")
    with pytest.raises(PlanError, match=why):
        await delete_names(admin, layout_in(tmp_path), ["a", "b"], observe_seconds=0.01, floors=floors)
    assert sorted(admin.groups) == ["a", "b"]
    allowed = replace(floors, named_deletions=True, dry_run_only=False, max_groups=2, approve_above=2)
    await delete_names(admin, layout_in(tmp_path), ["a", "b"], observe_seconds=0.01, floors=allowed)
    assert admin.groups == {}


@pytest.mark.parametrize(
    ("floor", "asked", "terms"),
    [
        (None, None, ApprovalTerms()),
        (None, ApprovalTerms(rule=ALWAYS), ApprovalTerms(rule=ALWAYS)),
        (5, ApprovalTerms(rule=NEVER), ApprovalTerms(rule=ABOVE_CAP, approve_above=5)),
        (5, ApprovalTerms(rule=ABOVE_CAP, approve_above=100), ApprovalTerms(rule=ABOVE_CAP, approve_above=5)),
        (5, ApprovalTerms(rule=ABOVE_CAP, approve_above=2), ApprovalTerms(rule=ABOVE_CAP, approve_above=2)),
        (5, ApprovalTerms(rule=ALWAYS), ApprovalTerms(rule=ALWAYS)),
    ],
)
def test_an_approval_above_their_number_cannot_be_switched_off(
    floor: int | None, asked: ApprovalTerms | None, terms: ApprovalTerms
) -> None:
    assert SiteFloors(approve_above=floor).approval(asked) == terms


def test_of_two_the_stricter_counts_limit_by_limit() -> None:
    one = SiteFloors(min_idle_seconds=60, max_groups=9, max_share=0.5, named_deletions=True)
    other = SiteFloors(min_idle_seconds=90, max_share=0.1, approve_above=0, dry_run_only=True, named_deletions=False)
    both = SiteFloors(
        min_idle_seconds=90,
        max_groups=9,
        max_share=0.1,
        approve_above=0,
        dry_run_only=True,
        named_deletions=False,
        ignore_signs_of_life=False,  # as nobody says so who sets the idle time
    )
    assert one.stricter(other) == other.stricter(one) == both
    assert NO_FLOORS.stricter(one) == replace(one, ignore_signs_of_life=False)


def test_who_names_approvers_is_asked_about_every_plan() -> None:
    only = frozenset({"42"})
    assert SiteFloors(approvers=only).approval(None) == ApprovalTerms(rule=ABOVE_CAP, approve_above=0, approvers=only)
    some = SiteFloors(approvers=only, approve_above=5)
    assert some.approval(None) == ApprovalTerms(rule=ABOVE_CAP, approve_above=5, approvers=only)
    assert SiteFloors(approvers=only).stricter(SiteFloors(approve_above=5)).approved_above == 0


def test_of_two_the_approvers_are_those_whom_both_name() -> None:
    one, other = SiteFloors(approvers=frozenset({"1", "2"})), SiteFloors(approvers=frozenset({"2", "3"}))
    assert one.stricter(other).approvers == one.stricter(other).stricter(NO_FLOORS).approvers == frozenset({"2"})
    with pytest.raises(ConfigurationError, match="no approver in common"):
        one.stricter(SiteFloors(approvers=frozenset({"3"})))


def test_there_is_one_storage() -> None:
    floors = SiteFloors(storage_path="s3://b/groups")
    floors.require_storage("s3://b/groups/")
    NO_FLOORS.require_storage("/anything")
    with pytest.raises(ConfigurationError, match="s3://b/groups"):
        floors.require_storage("s3://b/groups2")
    with pytest.raises(ConfigurationError, match="differ"):
        floors.stricter(SiteFloors(storage_path="/other"))


@pytest.mark.parametrize(
    "wrong", [{"min_idle_seconds": 0}, {"max_groups": 0}, {"max_share": 0}, {"max_share": 1.1}, {"approve_above": -1}]
)
def test_a_floor_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SiteFloors(**wrong)
