"""The report of a clean-up, recounted: no number says more than is known."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.request import DeletionObserver
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan, save_plan
from airflow_kafka_groups.report.charts import Series, bars, columns
from airflow_kafka_groups.report.facts import prunings, summary_of
from airflow_kafka_groups.report.html import make_report, render_report
from airflow_kafka_groups.report.sections import done_section, kept_section
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.records import kill_before_outcome, records
from tests.ui.report_scene import group_ids, plan_of
from tests.unit.change.deletion.steps import cluster, delete, fates
from tests.unit.change.prune_topics import scene as pruning
from tests.unit.change.scene import LATER, POLICY, backed_up, delete_names, judge, layout_in, snapshot
from tests.unit.report.test_html import Balanced
from tests.unit.report.test_pruned import prune


async def planned(tmp_path: Path, *names: str) -> tuple[FakeAdmin, Layout, DeletionPlan]:
    """Return a cluster with stale groups, and a plan with its backup."""
    admin, layout = cluster(*names), layout_in(tmp_path)
    return admin, layout, (await backed_up(admin, layout))[0]


def page(layout: Any, plan: Any) -> tuple[str, str, dict[str, Any]]:
    path, _ = make_report(layout, plan)
    html = Path(path).read_text()
    parsed = Balanced(html)
    return html, parsed.text, json.loads(parsed.scripts[0])


def trend(layout: Any) -> dict[str, Any]:
    run: dict[str, Any]
    (run,) = json.loads((layout.root / "reports" / "trend.json").read_text())["runs"]
    return run


async def test_a_dry_run_that_would_delete_nothing_is_no_deletion(tmp_path: Path) -> None:
    """docs/formats.md: dry_run is "true while there were only dry runs"."""
    admin, layout, plan = await planned(tmp_path, "a")
    admin.commit("a", "t", 0, 9)  # it moves: the dry run keeps it
    await delete(admin, layout, plan, dry_run=True)
    page(layout, plan)
    assert trend(layout)["outcomes"] == {"kept": 1}
    assert trend(layout)["dry_run"] is True
    shown = (tmp_path / layout.cluster / "reports" / "trend.html").read_text()
    assert '<td class="">deletion</td>' not in shown
    html, _, _ = page(layout, plan)
    assert ("<h2>Would be deleted" in html, "<h2>Deleted" in html) == (True, False)


async def test_a_run_of_an_empty_plan_was_run(tmp_path: Path) -> None:
    admin, layout = cluster("a"), layout_in(tmp_path)
    admin.groups["a"].members = 1
    admin.groups["a"].state = GroupState.STABLE
    plan, _ = await backed_up(admin, layout)
    assert not plan.group_ids
    await delete(admin, layout, plan)
    page(layout, plan)
    assert trend(layout)["dry_run"] is False, "null is for a plan that has not been run"


async def test_what_a_killed_run_deleted_can_be_restored_after_the_retry(tmp_path: Path) -> None:
    """The worker dies after its request; Airflow's retry finds the group gone: this plan has deleted it."""
    admin, layout, plan = await planned(tmp_path, "a")
    await delete(admin, layout, plan)
    kill_before_outcome(tmp_path)
    html, text, data = page(layout, plan)
    assert "airflow-kafka-groups restore" in html
    assert "1 Failed or unknown" in text
    retried = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(minutes=2)))
    assert fates(retried) == {"a": "gone:gone"}
    html, text, data = page(layout, plan)
    assert "airflow-kafka-groups restore" in html, "the only run that can have deleted it is this plan's"
    assert data["restore"]


async def test_a_possibly_deleted_group_stays_so_whatever_keeps_it_next(tmp_path: Path) -> None:
    admin, layout, plan = await planned(tmp_path, "a", "b")
    await delete(admin, layout, plan)
    kill_before_outcome(tmp_path)
    html, text, _ = page(layout, plan)
    assert "2 Failed or unknown" in text

    stopping = DeletionObserver(why_stop=lambda: "the task was cleared")
    retried = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(minutes=2)), observer=stopping)
    assert set(fates(retried).values()) == {"kept:stopped"}
    html, text, _data = page(layout, plan)
    assert "2 Failed or unknown" in text, "nothing has shown meanwhile that they still exist"
    assert "airflow-kafka-groups restore" in html


async def test_lag_that_is_not_known_is_not_zero(tmp_path: Path) -> None:
    admin, layout = cluster("a", "b"), layout_in(tmp_path)
    reader = await snapshot(admin, layout)
    plan = make_plan(verdicts_of(judge(reader, lag=None)), reader, POLICY, LATER)
    assert len(plan.group_ids) == 2
    text = Balanced(done_section(plan, {}, {}, dry_run=False)).text
    assert "0 records unread" not in text


def test_the_number_above_a_column_is_a_number() -> None:
    drawn = columns("x", ["a", "b"], [Series("s", "c", [999_999, 1])])
    assert "e+" not in drawn
    drawn = bars("x", ["a"], [Series("s", "c", [5e12])], what="records")
    assert "e+" not in drawn


async def test_a_group_that_the_run_did_not_reach_is_the_same_in_both_tables(tmp_path: Path) -> None:
    admin, layout, plan = await planned(tmp_path, "a", "b")
    await delete(admin, layout, plan, chunk_size=1)
    kill_before_outcome(tmp_path)
    _html, text, data = page(layout, plan)
    statuses = {row[0]: row[1] for row in data["rows"]}
    assert "the run did not reach it" in text
    assert sorted(statuses.values()) == ["kept", "unknown"]


async def test_the_runs_of_the_page_are_those_of_the_xcom(tmp_path: Path) -> None:
    admin, layout, plan = await planned(tmp_path, "a", "b")
    await delete(admin, layout, plan, dry_run=True)
    await delete(admin, layout, plan, now=Ticking(LATER + timedelta(minutes=2)))
    _html, text, _data = page(layout, plan)
    _, records = make_report(layout, plan)
    assert re.search(r"Runs\s+2\b", text), "the dry run is one of them"
    assert summary_of(plan, records)["runs"] == 2


async def test_a_pruning_is_shown_whatever_dry_runs_came_after_it(tmp_path: Path) -> None:
    """prunings(): "the newest plans of the last 30 days whose runs pruned something"."""
    admin, layout = pruning.cluster(), pruning.layout_in(tmp_path)
    pruned = await prune(admin, tmp_path)
    assert [each.plan_id for each in prunings(layout, CLUSTER_ID, NOW)] == [pruned]
    plan = load_plan(layout, pruned, prunes=True)
    for n in range(1, 21):  # daily plans, of which nobody applies any
        later = plan.created_at + timedelta(days=n)
        save_plan(layout, replace(plan, plan_id=new_id(later), created_at=later, groups=()))
    now = NOW + timedelta(days=21)
    assert [each.plan_id for each in prunings(layout, CLUSTER_ID, now)] == [pruned]


async def test_what_a_later_run_found_gone_does_not_still_exist(tmp_path: Path) -> None:
    admin, layout, plan = await planned(tmp_path, "a")
    await delete(admin, layout, plan)
    (first,) = records(tmp_path)
    first["verification"] = {"gone": 0, "present": {"a": "state Empty, 0 member(s)"}, "unclear": {}}
    second = {**first, "run_id": "x", "verification": None}
    second["outcomes"] = [{"group_id": "a", "outcome": "gone", "code": "gone", "reason": "it does not exist any more"}]
    assert "still exist" in render_report(plan, [first], now=LATER)
    assert "still exist" not in render_report(plan, [first, second], now=LATER)
    assert "still exist" in render_report(plan, [first, {**second, "outcomes": []}], now=LATER), "nobody looked again"


def cards(html: str) -> dict[str, int]:
    """Return the numbers at the top of a page by their names."""
    found = re.findall(r'<div class="card [a-z]*"><b>([0-9,]+)</b><span>([^<]+)</span>', html)
    return {name: int(number.replace(",", "")) for number, name in found}


@pytest.mark.parametrize("dry_run", [False, True])
async def test_the_numbers_at_the_top_add_up_to_the_planned_groups(tmp_path: Path, *, dry_run: bool) -> None:
    """Found gone, stopped and not reached are outcomes, too: none of them is missing, or the recheck's."""
    names = [f"g{number}" for number in range(9)]
    admin, layout, plan = await planned(tmp_path, *names)
    admin.commit("g1", "t", 0, 99)
    await delete(admin, layout, plan, dry_run=dry_run)
    (record,) = records(tmp_path)
    changed = {
        "g2": {"outcome": "gone", "code": "gone"},
        "g3": {"outcome": "kept", "code": "stopped"},
        "g4": {"outcome": "kept", "code": "came_back"},
        "g5": {"outcome": "failed", "code": "refused"},
    }
    reached = [item for item in record["outcomes"] if item["group_id"] not in ("g7", "g8")]
    outcomes = [{**item, **changed.get(item["group_id"], {})} for item in reached]
    shown = cards(render_report(plan, [{**record, "outcomes": outcomes}], now=LATER))
    after = {name: number for name, number in shown.items() if [*shown].index(name) > [*shown].index("Planned")}
    assert sum(number for name, number in after.items() if name != "Verified gone") == shown["Planned"] == 9
    assert after["Kept by the recheck"] == 1, "it moved; no recheck has kept the others"


async def test_the_counts_of_what_was_not_deleted_add_up_to_its_heading(tmp_path: Path) -> None:
    admin, layout, plan = await planned(tmp_path, "a", "b", "c")
    admin.commit("a", "t", 0, 99)
    await delete(admin, layout, plan)
    (record,) = records(tmp_path)
    outcomes = [item for item in record["outcomes"] if item["group_id"] != "c"]
    text = Balanced(render_report(plan, [{**record, "outcomes": outcomes}], now=LATER)).text
    section = text.partition("Planned but not deleted")[2]
    heading, counts = re.match(r"\s+(\d+)\s+(.*?)\s+Group", section).groups()  # type: ignore[union-attr]
    assert int(heading) == sum(map(int, re.findall(r" (\d+)(?:,|$)", counts.strip()))) == 2


def test_groups_that_a_decision_keeps_are_shown_before_those_in_use() -> None:
    """Without scripts, the page shows 200 of the kept groups."""
    plan, _ = plan_of(group_ids(900))
    last = max(group.group_id for group in plan.all_kept if group.verdict == VerdictName.LIVE)
    for name in KeptName:
        kept = [replace(group, verdict=name) if group.group_id == last else group for group in plan.all_kept]
        assert last in Balanced(kept_section(replace(plan, kept=kept))).text, name


async def test_the_offsets_of_named_groups_are_counted(tmp_path: Path) -> None:
    """docs/formats.md: partitions is the number of partitions with a committed offset."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("a", ("t", 0, 1), ("t", 1, 5), ("u", 0, 7))
    admin.add("b", ("t", 0, 1))
    result = await delete_names(admin, layout, ["a", "b"], observe_seconds=0.001)
    assert result.report.plan_id is not None
    plan = load_plan(layout, result.report.plan_id)
    assert [(group.group_id, group.partitions) for group in plan.groups] == [("a", 3), ("b", 1)]
    assert "4 committed offsets" in page(layout, plan)[1]
