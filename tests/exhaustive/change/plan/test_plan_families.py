"""Families of groups in a plan, and those that grow too fast."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.plan.rulings import with_families
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan, save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.report.html import render_report
from tests.exhaustive.change.plan.by_policy import BASE, POLICY, plan_by, world
from tests.fakes.groups import NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, judge, layout_in, snapshot
from tests.unit.judge.policy.files import policy_of


async def test_families_are_in_the_plan(tmp_path: Path) -> None:
    admin = world("job-1", "job-2", "job-3", "x")
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path)
    assert [(family["name"], family["groups"], family["planned"]) for family in plan.families] == [
        ("job-<number>", 3, 3)
    ]
    assert with_families(plan.planned, ["job-<number>", "x", "y"]) == ["job-3", "job-2", "job-1", "x", "y"]
    assert [with_families(plan.planned, odd) for odd in (None, "x", [1])] == [None, "x", [1]]
    assert {group.group_id: group.family for group in plan.groups} == {
        "job-1": "job-<number>", "job-2": "job-<number>", "job-3": "job-<number>", "x": None,
    }  # fmt: skip


GROWING = """\
    version: 1
    defaults: {max_growth_per_day: 5}
    rules:
      - {name: jobs, match: {groups: "job-*"}, action: delete, idle: 1d, max_growth_per_day: 1}
      - {name: rest, action: keep}
    """


async def grown(
    folder: Path, before: timedelta | None, seen: timedelta, names: Sequence[str] = (), **how: Any
) -> DeletionPlan:
    """Plan by a snapshot whose groups were first seen at a time ``seen`` before it, after one of a time ``before``."""
    names = names or ("job-1", "job-2", "job-3", "load-1", "load-2", "old")
    layout, admin = layout_in(folder), world(*names)
    if before is not None:
        await take_snapshot(admin, layout, now=Ticking(NOW - before), **how)
    reader = await snapshot(admin, layout)
    file, history = policy_of(folder, GROWING), judge(reader)[-1]._replace(first_seen_at=NOW - timedelta(days=9))
    new = [verdict._replace(first_seen_at=NOW - seen) for verdict in judge(reader)[:-1]]
    return make_plan(verdicts_of([*new, history]), reader, BASE.by_file(file), LATER, owners=file.owners)


HOURS = timedelta(hours=1)


async def test_a_family_that_grows_faster_than_its_rule_allows_is_a_warning_and_first(tmp_path: Path) -> None:
    plan = await grown(tmp_path, 30 * HOURS, 6 * HOURS)
    (warning,) = plan.warnings
    assert warning.startswith("family 'job-<number>' grows by 2.4 groups a day, and 1 are allowed (rule 'jobs', ")
    assert [(family["name"], family.get("too_fast")) for family in plan.families] == [
        ("job-<number>", [{"rule": "jobs", "per_day": 2.4, "allowed_per_day": 1}]),
        ("load-<number>", None),
    ]
    layout = layout_in(tmp_path)
    save_plan(layout, plan)
    assert load_plan(layout, plan.plan_id).families == plan.families
    assert "too fast" in render_report(plan, now=LATER)


async def test_of_many_families_that_grow_too_fast_the_others_are_counted(tmp_path: Path) -> None:
    names = [f"job-{letter}-{number}" for letter in "abcdefghijklmnopqrstuvwxy" for number in range(3)]
    plan = await grown(tmp_path, 30 * HOURS, 6 * HOURS, [*names, "old"])
    assert (len(plan.warnings), plan.warnings[-1]) == (21, "5 more families grow faster than is allowed")


async def test_what_was_there_a_day_ago_is_not_new(tmp_path: Path) -> None:
    assert not (await grown(tmp_path, 30 * HOURS, 31 * HOURS)).warnings


@pytest.mark.parametrize(
    ("before", "how"),
    [(None, {}), (20 * HOURS, {}), (30 * HOURS, {"include": ["other*"]}), (30 * HOURS, {"group_ids": ["old"]})],
)
async def test_growth_is_not_known_without_a_snapshot_of_the_same_groups_from_a_day_ago(
    tmp_path: Path, before: timedelta | None, how: dict[str, Any]
) -> None:
    plan = await grown(tmp_path, before, 6 * HOURS, **how)
    assert plan.warnings == (
        "the growth of families is not known: there is no judged snapshot of a day before this one",
    )
    assert not [family for family in plan.families if "too_fast" in family]


@pytest.mark.safety
async def test_a_group_that_is_called_like_a_family_leaves_the_family_its_name(tmp_path: Path) -> None:
    plan = await plan_by(policy_of(tmp_path, POLICY), world("job-1", "job-<number>"), tmp_path)
    assert set(with_families(plan.planned, ["job-<number>"])) == {"job-1", "job-<number>"}
