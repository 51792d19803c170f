"""A deletion keeps what the journal knows: deleted before, possibly deleted, or found in use. Twice is never."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.contracts.ids import new_id
from airflow_kafka_groups.maintenance.deletion.audit import read_history
from airflow_kafka_groups.maintenance.deletion.exclusions import exclusions
from airflow_kafka_groups.maintenance.keep_alive.request import KeepAliveRequest
from airflow_kafka_groups.maintenance.keep_alive.service import keep_alive
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import GroupState
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, Ticking
from tests.unit.maintenance.scene import LATER, backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety


def joins(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 1
    admin.groups["a"].state = GroupState.STABLE


def leaves(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 0
    admin.groups["a"].state = GroupState.EMPTY


LIVES: list[tuple[str, Callable[[FakeAdmin], object], Callable[[FakeAdmin], object]]] = [
    ("members", joins, leaves),
    ("offsets", lambda admin: admin.commit("a", "t", 0, 7), lambda admin: admin.commit("a", "t", 0, 0)),
]


@pytest.mark.parametrize(("comes", "goes"), [item[1:] for item in LIVES], ids=[item[0] for item in LIVES])
async def test_a_group_that_was_found_in_use_is_not_deleted_by_that_plan_any_more(
    tmp_path: Path, comes: Callable[[FakeAdmin], object], goes: Callable[[FakeAdmin], object]
) -> None:
    """The task is cleared at a moment when the group is Empty again, and looks just as it did when it was judged."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 0))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    comes(admin)
    await delete_plan(admin, layout, plan, dry_run=True)
    goes(admin)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "alive_before")
    assert "found it in use" in outcome.reason
    assert "only a new plan may judge it again" in outcome.reason
    assert "a" in admin.groups


async def test_for_another_plan_the_idle_time_restarts(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 0))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    joins(admin)
    await delete_plan(admin, layout, plan)
    history = read_history(layout, CLUSTER_ID)
    week = 7 * 86_400.0

    def excluded_after(seconds: float, judged: bool = True) -> set[str]:
        now = LATER + timedelta(seconds=seconds)
        judged_at = now - timedelta(seconds=60) if judged else None
        return set(exclusions(history, "another plan", now=now, judged_at=judged_at, min_idle_seconds={"": week}))

    assert excluded_after(week / 2) == {"a"}
    assert excluded_after(week * 2) == set()
    assert excluded_after(0, judged=False) == set(), "somebody named it, and it is watched first"


@pytest.mark.parametrize(("later", "deleted"), [(timedelta(minutes=-5), False), (timedelta(days=-40), True)])
async def test_a_plan_spares_a_group_that_was_kept_alive_since(tmp_path: Path, later: timedelta, deleted: bool) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    at = LATER + later
    kept = await keep_alive(admin, layout, request, protects=lambda _: False, dry_run=False, now=lambda: at)
    assert kept.counts["kept_alive"] == 1
    (record,) = (tmp_path / "prod" / "changes").glob("*-before.json")
    record.rename(record.with_name(f"{new_id(at)}-keep-alive-before.json"))  # its id has the machine's own time
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome == "deleted", "a" not in admin.groups) == (deleted, deleted)
    assert deleted or (outcome.code == "excluded" and "keep-alive" in outcome.reason)


async def test_a_group_that_was_kept_alive_after_its_plan_is_spared_when_that_effect_is_over(tmp_path: Path) -> None:
    """The brokers keep offsets for a minute here, and the plan waits for its approval for longer."""
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0, offsets_retention_minutes=1)
    await keep_alive(admin, layout, request, protects=lambda _: False, dry_run=False)
    (record,) = (tmp_path / "prod" / "changes").glob("*-before.json")
    at = LATER + timedelta(minutes=1)
    record.write_text(re.sub(r'"kept_until": "[^"]*"', f'"kept_until": "{at.isoformat()}"', record.read_text()))
    record.rename(record.with_name(f"{new_id(LATER)}-keep-alive-before.json"))
    now = Ticking(LATER + timedelta(hours=2))
    (outcome,) = (await delete_plan(admin, layout, plan, now=now)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")


async def test_a_group_that_is_kept_alive_by_another_folder_of_the_cluster_is_spared(tmp_path: Path) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    other = Layout(tmp_path, "prod_by_another_connection")
    await keep_alive(admin, other, request, protects=lambda _: False, dry_run=False, now=lambda: LATER)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")
