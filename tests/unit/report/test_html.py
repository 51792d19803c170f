"""The files of a clean-up that its report names."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.verify import Verification
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import LeaseRecord
from airflow_kafka_groups.report.facts import looked_at_again, merge_outcomes
from airflow_kafka_groups.report.html import render_report, write_report
from airflow_kafka_groups.report.page import script
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.records import records
from tests.unit.change.scene import LATER, backed_up, delete_plan, layout_in, planned

EVIL = '<script>alert("x")</script>&\'"\u202e'


class Balanced(HTMLParser):
    """Fail on a tag that is not closed; collect the texts and tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


async def run(tmp_path: Path, *, dry_run: bool) -> tuple[Layout, DeletionPlan, dict[str, Any]]:
    """Delete two of three groups, and return the run's record."""
    admin = FakeAdmin()
    for name in ("a", "b", EVIL):
        admin.add(name, ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.commit("b", "t", 0, 9)
    await delete_plan(admin, layout, plan, dry_run=dry_run, actor={"run_id": "manual__1", "triggered_by": EVIL})
    (record,) = records(tmp_path)
    return layout, plan, record


async def test_stale_groups_that_wait_for_their_notice_are_counted(tmp_path: Path) -> None:
    _, plan, record = await run(tmp_path, dry_run=False)
    assert "Wait for their notice" not in render_report(plan, [record], now=LATER)
    waiting = replace(plan, counts={**plan.counts, "notice": 206})
    assert "206 Wait for their notice" in Balanced(render_report(waiting, [record], now=LATER)).text


async def test_the_page_of_a_deletion(tmp_path: Path) -> None:
    layout, plan, record = await run(tmp_path, dry_run=False)
    html = render_report(plan, [record], files={"Backup": "s3://b/x", "DAG": "https://a/?b=1&c"}, now=LATER)
    page = Balanced(html)
    assert "Dry run" not in page.text
    for text in (
        "Deleted",
        "Verified gone",
        "its committed offsets changed",
        "min_idle_seconds",
        plan.digest,
        "the log of commits was not read",
        "manual__1",
    ):
        assert text in page.text
    assert EVIL in page.text
    assert not page.tags & {"img", "link", "iframe"}
    assert not re.search(r"(src|href)=\"(?!https://a/\?b=1&amp;c\")", html)
    data, program = page.scripts
    assert program == script()
    assert EVIL in [row[0] for row in json.loads(data)["rows"]]
    assert "url(" not in html
    path = write_report(layout, plan.plan_id, html)
    assert path.read_bytes() == html.encode()
    write_report(layout, plan.plan_id, html)


async def test_the_page_of_a_dry_run_says_so_first(tmp_path: Path) -> None:
    _, plan, record = await run(tmp_path, dry_run=True)
    page = Balanced(render_report(plan, [record], now=LATER))
    assert "Dry run: all checks were made, nothing was deleted." in page.text
    assert "Would be deleted" in page.text
    assert "Planned but would be kept" in page.text
    assert "not deleted" not in page.text
    assert "RestoreGroupOffsetsOperator" not in page.text
    everything = {**record, "outcomes": [{**item, "outcome": "would_delete"} for item in record["outcomes"]]}
    text = Balanced(render_report(plan, [everything], now=LATER)).text
    assert "Every planned group would be deleted." in text
    assert "was deleted." not in text.replace("nothing was deleted.", "")


async def test_the_page_of_a_plan_that_was_not_run(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    plan = replace(await planned(admin, layout_in(tmp_path)), warnings=("look twice",))
    page = Balanced(render_report(plan, now=LATER))
    assert "this plan has not been applied" in page.text
    assert "look twice" in page.text
    Balanced(render_report(replace(plan, groups=(), kept=()), now=LATER))


@pytest.mark.parametrize("lost", [None, f"it was given to {EVIL}"])
async def test_the_page_shows_the_lease_by_which_a_run_deleted(tmp_path: Path, lost: str | None) -> None:
    _, plan, record = await run(tmp_path, dry_run=False)
    lease = LeaseRecord(group_id="x.lease", owner="o", member_id="m", generations=(3, 5), lost=lost)
    page = Balanced(render_report(plan, [{**record, "lease": lease.to_json()}], now=LATER))
    assert "x.lease , generation 3, 5" in page.text
    assert ("lost: it was given to" in page.text) is (lost is not None)
    assert page.scripts[1:] == [script()]


async def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for number in range(230):
        admin.add(f"g{number}", ("t", 0, 1))
    plan = await planned(admin, layout_in(tmp_path))
    html = render_report(plan, now=LATER)
    assert html.count("<bdi>g") == 200
    assert "The first 200 are shown" in Balanced(html).text


async def test_groups_that_are_back_are_in_red(tmp_path: Path) -> None:
    _, plan, record = await run(tmp_path, dry_run=False)
    found = Verification(gone=("a",), present={EVIL: "state Stable"}, unclear={})
    record["verification"] = found.to_json()
    html = render_report(plan, [record], now=LATER)
    assert 'class="banner bad">1 group(s) that should be gone still exist' in html
    Balanced(html)


def test_a_repeated_run_does_not_hide_what_the_first_one_deleted() -> None:
    def of(**outcomes: str) -> dict[str, Any]:
        return {"outcomes": [{"group_id": name, "outcome": what, "code": "x"} for name, what in outcomes.items()]}

    later = of(a="gone", b="gone", c="deleted", d="kept")
    merged = merge_outcomes([of(a="deleted", b="unknown", c="kept", d="unknown"), later])
    assert {name: item["outcome"] for name, item in merged.items()} == {**dict.fromkeys("abc", "deleted"), "d": "kept"}
    not_looked_at = [{"outcomes": [{"group_id": "d", "outcome": "kept", "code": "deleted_before"}]}]
    assert merge_outcomes([of(d="unknown"), *not_looked_at])["d"]["outcome"] == "unknown"


async def test_forecasts_are_shown_where_there_are_any(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for name in ("a", "b"):
        admin.add(name, ("t", 0, 1))
    plan = await planned(admin, layout_in(tmp_path))
    heads = ("Lag a day", "Lost unread", "Offsets expire by", "Unread safe until")
    assert not any(head in Balanced(render_report(plan, now=LATER)).text for head in heads)
    forecast: dict[str, Any] = {
        "lag_trend": 86_400.4,
        "lost": 1_234,
        "lag_unknown": 2,
        "offsets_expire_by": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    }
    groups = (replace(plan.groups[0], **forecast), plan.groups[1])
    text = Balanced(render_report(replace(plan, groups=groups), now=LATER)).text
    assert [head in text for head in heads] == [True, True, True, False]
    for shown in ("+86,400", "1,234", "2026-03-04 05:06", "at least 7"):
        assert shown in text


async def test_a_cleared_task_does_not_change_what_the_first_run_deleted(tmp_path: Path) -> None:
    _, plan, first = await run(tmp_path, dry_run=False)
    codes = {"a": "deleted_before", "b": "excluded", EVIL: "alive_before"}
    kept = [{"group_id": name, "outcome": "kept", "code": code, "reason": "why"} for name, code in codes.items()]
    second = {**first, "outcomes": kept, "verification": {"gone": 1, "present": {}, "unclear": {}}}
    merged = merge_outcomes([first, second])
    assert {name: item["outcome"] for name, item in merged.items()} == {"a": "deleted", "b": "kept", EVIL: "deleted"}
    assert looked_at_again([first, second])[0] == {"a", EVIL}
    text = Balanced(render_report(plan, [first, second], now=LATER)).text
    for shown in ("2 Deleted", "2 Verified gone", "1 Kept: excluded, restored or kept alive"):
        assert shown in text
    assert "0 Kept by the recheck" not in text
    assert re.search(r"0: .*Kept by the recheck", text)
    assert f'{{"plan_id": "{plan.plan_id}", "dry_run": false}}' in text
