from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BackupError,
    ConfigurationError,
    IncompleteListingError,
    KafkaGroupsError,
    OutcomeUnknownError,
    PlanError,
)
from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.maintenance.deletion.planned import DeletionOptions, delete_planned
from airflow_kafka_groups.membership import clock
from airflow_kafka_groups.models import GroupState
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking, broker_error, timeout
from tests.unit.maintenance.scene import LATER, backed_up, layout_in, planned


def options(**changes: Any) -> DeletionOptions:
    return DeletionOptions(**{"now": Ticking(LATER), **changes})


def fates(report: DeletionReport) -> dict[str, str]:
    return {item.group_id: f"{item.outcome.value}:{item.code}" for item in report.outcomes}


def cluster(*names: str) -> FakeAdmin:
    admin = FakeAdmin()
    for number, name in enumerate(names):
        admin.add(name, ("t", 0, number))
    return admin


async def test_planned_groups_are_deleted_and_all_others_are_not(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    admin.add("busy", ("t", 0, 1), state=GroupState.STABLE, members=1)
    admin.add("connect-x", ("t", 0, 1))
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert fates(report) == {"a": "deleted:safe", "b": "deleted:safe"}
    assert sorted(admin.groups) == ["busy", "connect-x"]
    assert report.counts == {"deleted": 2, "would_delete": 0, "kept": 0, "gone": 0, "failed": 0, "unknown": 0}
    assert (report.plan_digest, report.backup, report.warnings) == (plan.digest, backup.path, ())
    assert DeletionReport.from_json(report.to_json()) == report


async def test_a_dry_run_makes_every_check_and_deletes_nothing(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.commit("b", "t", 0, 99)
    admin.groups["c"].members = 1
    report = await delete_planned(admin, plan, backup, dry_run=True, options=options())
    assert fates(report) == {"a": "would_delete:safe", "b": "kept:moved", "c": "kept:has_members"}
    assert admin.asked("delete") == []
    assert len(admin.groups) == 3


async def test_a_dry_run_needs_no_backup_and_a_real_one_does(tmp_path: Path) -> None:
    admin = cluster("a")
    plan = await planned(admin, layout_in(tmp_path))
    report = await delete_planned(admin, plan, None, dry_run=True, options=options())
    assert fates(report) == {"a": "would_delete:safe"}
    with pytest.raises(ConfigurationError, match="back up the plan first"):
        await delete_planned(admin, plan, None, dry_run=False, options=options())
    assert "a" in admin.groups


def came_alive(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 2
    admin.groups["a"].state = GroupState.STABLE


CHANGES: list[tuple[str, Callable[[FakeAdmin], object], str]] = [
    ("it has members", came_alive, "kept:has_members"),
    ("it moved", lambda admin: admin.commit("a", "t", 0, 7), "kept:moved"),
    ("a new partition", lambda admin: admin.commit("a", "t", 1, 0), "kept:moved"),
    (
        "it is rebalancing",
        lambda admin: setattr(admin.groups["a"], "state", GroupState.PREPARING_REBALANCE),
        "kept:not_empty",
    ),
    ("its offsets vanished", lambda admin: admin.groups["a"].offsets.clear(), "kept:moved"),
    ("it is gone", lambda admin: admin.groups.pop("a"), "gone:gone"),
    ("it is silent", lambda admin: admin.silent.add("a"), "kept:not_described"),
    (
        "it may not be described",
        lambda admin: admin.describe_errors.update(a=broker_error("GROUP_AUTHORIZATION_FAILED")),
        "kept:not_described",
    ),
    (
        "it may not be read",
        lambda admin: admin.offset_errors.update(a=broker_error("GROUP_AUTHORIZATION_FAILED")),
        "kept:unreadable",
    ),
]


@pytest.mark.parametrize(("change", "fate"), [item[1:] for item in CHANGES], ids=[item[0] for item in CHANGES])
async def test_what_changed_since_the_backup_is_kept(
    change: Callable[[FakeAdmin], object], fate: str, tmp_path: Path
) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    change(admin)
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert fates(report) == {"a": fate, "b": "deleted:safe"}
    assert admin.deleted == ["b"]


async def test_a_group_that_is_not_in_the_backup_is_kept(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    admin.offset_errors["a"] = timeout()
    from airflow_kafka_groups.maintenance.backup.planned import backup_groups

    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    admin.offset_errors.clear()
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert fates(report) == {"a": "kept:not_in_backup", "b": "deleted:safe"}


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.none])
async def test_every_answer_of_a_delete_request_is_told_apart(code: ErrorCode, tmp_path: Path) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.delete_errors["a"] = broker_error(code.name.upper())
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    special = {
        ErrorCode.non_empty_group: "kept",
        ErrorCode.group_id_not_found: "gone",
        ErrorCode.unknown_server_error: "unknown",
        ErrorCode.request_timed_out: "unknown",
        ErrorCode.network_exception: "unknown",
    }
    assert [item.outcome.value for item in report.outcomes if item.group_id == "a"] == [special.get(code, "failed")]
    assert admin.deleted == ["b"]


@pytest.mark.parametrize("problem", [timeout(), OutcomeUnknownError("the connection broke"), KafkaGroupsError("x")])
async def test_a_lost_answer_is_unknown_and_never_deleted_or_failed(problem: KafkaGroupsError, tmp_path: Path) -> None:
    admin = cluster("a")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.delete_errors["a"] = problem
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert report.ids(Outcome.UNKNOWN) == ["a"]


async def test_a_group_left_out_of_the_answer_is_unknown(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))

    def silence(call: str) -> None:
        if call == "delete":
            admin.silent.add("a")

    admin.before = silence
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert fates(report) == {"a": "unknown:no_answer", "b": "deleted:safe"}


async def test_nothing_is_deleted_by_an_incomplete_listing(tmp_path: Path) -> None:
    admin = cluster("a")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.missing_brokers = {2: timeout()}
    with pytest.raises(IncompleteListingError):
        await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert "a" in admin.groups


async def test_a_plan_or_backup_that_does_not_fit_deletes_nothing(tmp_path: Path) -> None:
    admin = cluster("a")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    late = options(now=Ticking(plan.expires_at))
    with pytest.raises(PlanError, match="expired"):
        await delete_planned(admin, plan, backup, dry_run=False, options=late)
    with pytest.raises(PlanError, match="approved"):
        await delete_planned(admin, plan, backup, dry_run=False, approved_digest="0" * 64, options=options())
    with pytest.raises(BackupError, match="not belong to plan"):
        await delete_planned(admin, plan, replace(backup, plan_digest="0" * 64), dry_run=False, options=options())
    admin.cluster = "another"
    with pytest.raises(PlanError, match="check the connection"):
        await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert "a" in admin.groups
    assert admin.asked("delete") == []


async def test_every_chunk_is_read_a_moment_before_it_is_deleted(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c", "d", "e")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.calls.clear()
    chunks: list[Sequence[GroupOutcome]] = []
    seen: list[tuple[str, int, int]] = []
    how = options(chunk_size=2, on_chunk=chunks.append, progress=lambda *args: seen.append(args))
    await delete_planned(admin, plan, backup, dry_run=False, options=how)
    first, second, third = plan.group_ids[:2], plan.group_ids[2:4], plan.group_ids[4:]
    script: list[tuple[str, list[str]]] = [("list", [])]
    for chunk in (first, second, third):
        script += [("describe", chunk), ("stable offsets", chunk), ("delete", chunk)]
    assert admin.calls == script
    assert [[item.group_id for item in chunk] for chunk in chunks] == [first, second, third]
    assert seen == [("delete", 2, 5), ("delete", 4, 5), ("delete", 5, 5)]


class Slow:
    """A monotonic clock of which reading takes so many seconds, one after the other."""

    def __init__(self, *took: float) -> None:
        self.took = list(took)
        self.value = 0.0
        self.started = False

    def __call__(self) -> float:
        if self.started:
            self.value += self.took.pop(0)
        self.started = not self.started
        return self.value


async def test_a_reading_that_got_old_is_made_again(tmp_path: Path) -> None:
    admin = cluster("a")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.calls.clear()
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options(monotonic=Slow(16, 15)))
    assert admin.call_names == [
        "list",
        "describe",
        "stable offsets",
        "describe",
        "stable offsets",
        "delete",
    ]
    assert fates(report) == {"a": "deleted:safe"}


async def test_a_reading_that_is_always_old_keeps_the_groups(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.commit("b", "t", 0, 7)
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options(monotonic=Slow(16, 16)))
    assert fates(report) == {"a": "kept:too_slow", "b": "kept:moved"}
    assert admin.asked("delete") == []


async def test_being_asked_to_stop_keeps_the_rest(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    how = options(chunk_size=1, stop=lambda: len(admin.deleted) == 1)
    report = await delete_planned(admin, plan, backup, dry_run=False, options=how)
    assert [item.outcome.value for item in report.outcomes] == ["deleted", "kept", "kept"]
    assert report.kept_reasons == {"stopped": 2}


async def test_a_plan_that_expires_on_the_way_keeps_the_rest(tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    clock = Ticking(plan.expires_at - timedelta(seconds=3))
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options(chunk_size=1, now=clock))
    assert [f"{item.outcome.value}:{item.code}" for item in report.outcomes] == [
        "deleted:safe",
        "kept:expired",
        "kept:expired",
    ]


@pytest.mark.parametrize(("call", "outcome"), [("describe", "kept"), ("stable offsets", "kept"), ("delete", "unknown")])
async def test_a_call_that_fails_as_a_whole_stops_the_run(call: str, outcome: str, tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    calls: list[str] = []

    def break_down(name: str) -> None:
        calls.append(name)
        if calls.count(call) == 2 and name == call:
            raise timeout()

    admin.before = break_down
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options(chunk_size=1))
    assert [item.outcome.value for item in report.outcomes] == ["deleted", outcome, "kept"]
    assert report.outcomes[2].code == "stopped"
    assert len(report.warnings) == 1
    assert len(admin.groups) == 2


async def test_a_delete_request_does_not_wait_for_ever_on_a_reading_that_gets_old(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    admin.delete_hangs = True
    how = options(chunk_size=1, max_delete_seconds=0.01)
    report = await delete_planned(admin, plan, backup, dry_run=False, options=how)
    assert [f"{item.outcome.value}:{item.code}" for item in report.outcomes] == [
        "unknown:outcome_unknown",
        "kept:stopped",
    ]
    assert "given up" in report.warnings[0]


async def test_a_repeated_run_finds_its_work_done(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    await delete_planned(admin, plan, backup, dry_run=False, options=options())
    again = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert again.counts["gone"] == 2


async def test_an_empty_plan_deletes_nothing(tmp_path: Path) -> None:
    admin = FakeAdmin()
    plan, backup = await backed_up(admin, layout_in(tmp_path))
    report = await delete_planned(admin, plan, backup, dry_run=False, options=options())
    assert report.outcomes == ()


@pytest.mark.parametrize(
    "bad", [{"chunk_size": 0}, {"chunk_size": True}, {"max_read_age_seconds": 0}, {"max_delete_seconds": -1}]
)
def test_options_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        DeletionOptions(**bad)


def test_the_age_of_a_reading_counts_the_sleep_of_the_machine() -> None:
    """``time.monotonic`` stands still in suspend: a laptop that wakes up would delete by what it read yesterday."""
    assert DeletionOptions().monotonic is clock.now
