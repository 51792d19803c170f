"""Nothing is deleted in quiet hours and on holidays of the policy, neither begun nor gone on with."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import QuietTimeError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.journal import RunJournal
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.unit.change.deletion.plans import plan_by
from tests.unit.change.scene import LATER, delete_plan, layout_in
from tests.unit.judge.policy.files import policy_of

pytestmark = pytest.mark.safety
RULES = "rules: [{name: rest, action: delete, idle: 2d}]\n"
QUIET = f"version: 1\nquiet_hours: '{NOW:%H}:00-{NOW + timedelta(hours=2):%H}:00'\n{RULES}"
"""The hours in which everything here takes place."""


async def scene(folder: Path) -> tuple[FakeAdmin, DeletionPlan, PolicyFile]:
    admin = FakeAdmin()
    for name in "abc":
        admin.add(name, ("t", 0, 5))
    plan = await plan_by(policy_of(folder, f"version: 1\n{RULES}"), admin, folder)
    return admin, plan, policy_of(folder, QUIET)


async def test_nothing_begins_in_quiet_hours(tmp_path: Path) -> None:
    admin, plan, quiet = await scene(tmp_path)
    with pytest.raises(QuietTimeError, match=r"no deletions during the quiet hours .*, until 2") as error:
        await delete_plan(admin, layout_in(tmp_path), plan, policy=quiet)
    assert error.value.until == NOW.replace(minute=0, second=0) + timedelta(hours=2)
    assert set(admin.groups) == {"a", "b", "c"}
    assert not list(tmp_path.glob("_journal/*/0*"))  # noqa: ASYNC240  # it is fast
    dry = await delete_plan(admin, layout_in(tmp_path), plan, policy=quiet, dry_run=True)
    assert dry.report.counts["would_delete"] == 3


async def test_after_them_it_goes_on_as_ever(tmp_path: Path) -> None:
    admin, plan, quiet = await scene(tmp_path)
    later = Ticking(NOW.replace(minute=0, second=0) + timedelta(hours=2))
    assert (await delete_plan(admin, layout_in(tmp_path), plan, policy=quiet, now=later)).report.counts["deleted"] == 3


async def test_a_plan_that_will_have_expired_by_then_is_not_waited_for(tmp_path: Path) -> None:
    admin, plan, _ = await scene(tmp_path)
    text = QUIET.replace("quiet_hours: ", f"holidays: ['{NOW:%m-%d}..{NOW + timedelta(days=3):%m-%d}']\n#")
    with pytest.raises(QuietTimeError, match="the holiday") as error:
        await delete_plan(admin, layout_in(tmp_path), plan, policy=policy_of(tmp_path, text))
    assert error.value.until is None


async def test_a_run_stops_where_quiet_hours_begin(tmp_path: Path) -> None:
    admin, plan, _ = await scene(tmp_path)
    begin = LATER.replace(second=0) + timedelta(minutes=2)
    text = QUIET.replace(f"'{NOW:%H}:00-", f"'{begin:%H:%M}-")
    now = Ticking(LATER.replace(second=0) + timedelta(minutes=1))

    def pass_on(call: str) -> None:
        if call == "delete":
            now.value += timedelta(minutes=2)

    admin.before = pass_on
    report = (
        await delete_plan(admin, layout_in(tmp_path), plan, policy=policy_of(tmp_path, text), now=now, chunk_size=1)
    ).report
    assert (report.counts["deleted"], report.kept_reasons) == (1, {"stopped": 2})
    assert "the quiet hours" in report.warnings[0]


async def test_no_request_leaves_in_quiet_hours_that_begin_while_the_intent_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, plan, _ = await scene(tmp_path)
    begin = LATER.replace(second=0) + timedelta(minutes=2)
    text = QUIET.replace(f"'{NOW:%H}:00-", f"'{begin:%H:%M}-")
    now, sent = Ticking(begin - timedelta(seconds=14)), []
    intend = RunJournal.intend

    def slow(journal: RunJournal, *args: Any, **how: Any) -> None:
        intend(journal, *args, **how)
        now.value += timedelta(seconds=14)

    def note(call: str) -> None:
        if call == "delete":
            sent.append(now.value)

    monkeypatch.setattr(RunJournal, "intend", slow)
    admin.before = note
    report = (await delete_plan(admin, layout_in(tmp_path), plan, policy=policy_of(tmp_path, text), now=now)).report
    assert (sent, report.kept_reasons) == ([], {"stopped": 3})
    assert "the quiet hours" in report.warnings[0]
