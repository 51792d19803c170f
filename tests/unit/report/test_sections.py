"""The parts of a report: what they escape, cut and count, and what they do not leave out in silence."""

import json
import re
import shlex
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from jinja2 import UndefinedError

from airflow_kafka_groups.change.plan.question import question
from airflow_kafka_groups.cli.main import parse
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.report import page
from airflow_kafka_groups.report import sections as rows
from airflow_kafka_groups.report.page import HEAD, content_policy, counted, part, render, script
from airflow_kafka_groups.report.sections import (
    by_reason,
    families_section,
    forecast_columns,
    groups_json,
    lag_cell,
    policy_section,
    restore_command,
)
from tests.ui.report_scene import group_ids, plan_of, record_of
from tests.unit.change.plan.plans import group, plan
from tests.unit.judge.policy.files import policy_of

EVIL = "<img src=x onerror=alert(1)>\"'&"
TEMPLATES = [file for file in files(str(page.__package__)).joinpath("templates").iterdir() if file.name.endswith(".j2")]
"""The templates of pages, of their parts, and of mails."""


def message(**facts: Any) -> str:
    return render("message.html.j2", **{"title": "t", "text": "x", "links": [], **facts})


def test_every_value_is_escaped_also_within_an_attribute() -> None:
    shown = message(title=EVIL, text=EVIL, links=[(EVIL, EVIL, EVIL)])
    assert "<img" not in shown
    assert 'href="&lt;img src=x onerror=alert(1)&gt;&#34;&#39;&amp;"' in shown
    assert shown.count("&lt;img") == 6  # the title twice


def test_only_what_this_package_makes_is_taken_as_html() -> None:
    """A value of a cluster that a template calls safe would be run by whoever opens a report."""
    found = {value for file in TEMPLATES for value in re.findall(r"(\w+) *\| *safe\b", file.read_text())}
    assert found == {"head", "style", "script", "data", "drawn"}
    assert not [file.name for file in TEMPLATES if re.search(r"autoescape|Markup", file.read_text())]


def test_a_page_begins_as_a_report_and_the_browser_knows_its_style_and_script() -> None:
    shown = render("message.html.j2", title="t", text="x", links=[], data="{}")
    assert shown.startswith(HEAD)
    (style,) = re.findall(r"<style>(.*?)</style>", shown, re.DOTALL)
    assert content_policy(style).replace("'", "&#39;") in shown
    assert f"<script>{script()}</script>" in shown
    assert "<script" not in message()


def test_a_variable_that_is_missing_is_an_error_and_no_empty_place() -> None:
    with pytest.raises(UndefinedError, match="'links' is undefined"):
        render("message.html.j2", title="t", text="x")


def test_what_a_page_shows_of_a_value() -> None:
    rows: list[tuple[Any, ...]] = [("a", 1_234_567, 0, None), ("x" * 5_000, 1, 1, "y" * 5_000)]
    shown = part("owners", rows, 2, "")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", shown)
    assert cells[:4] == ["<code><bdi>a</bdi></code>", "1,234,567", "0", "-"]
    assert cells[4] == f"<code><bdi>{'x' * 200}… (5,000 characters)</bdi></code>"
    assert cells[7] == f"{'y' * 1_000}… (5,000 characters)"


def test_a_sentence_of_a_message_is_shown_in_full() -> None:
    """An error may name a long path, and its remedy comes last."""
    assert "z" * 5_000 in message(text="z" * 5_000)


@pytest.mark.parametrize(
    ("name", "words"),
    [("by_rule", "kept by a rule"), ("over_cap", "over the cap"), ("notice", "notice period"), ("live", "live")],
)
def test_a_verdict_is_said_in_words(name: str, words: str) -> None:
    page = part("not_done", by_reason([("g", name)], ["why"]), 1, "", False)
    assert f'<span class="pill {name}">{words}</span>' in page
    assert counted({name: 1_200}) == f"{words} 1,200"


def test_a_reason_is_said_once_for_all_that_share_it() -> None:
    rows = [("a", "kept"), ("b", "kept"), ("c", "failed"), ("d", "kept")]
    why = "the policy requires 7 days"
    reasons = by_reason(
        rows, [f"idle for 8 days; {why}", f"idle for 9 days; {why}", "broken", f"idle for 7 days; {why}"]
    )
    page = part("not_done", reasons, 4, "", False)
    assert [(reason, [row[0] for row, _ in found]) for reason, found in reasons] == [
        (why, ["a", "b", "d"]),
        ("broken", ["c"]),
    ]
    assert page.count(why) == 1
    assert page.index(why) < page.index("idle for 8 days") < page.index("idle for 9 days") < page.index("broken")


def test_only_columns_that_some_group_has_are_shown_and_the_others_have_a_dash() -> None:
    heads, cells = forecast_columns([group("a", lost=1234.4), group("b"), group("c", lag_trend=5.0)])
    assert heads == ["Lag a day", "Lost unread"]
    assert cells == [["-", "1,234"], ["-", "-"], ["+5", "-"]]
    assert forecast_columns([group("a"), group("b")]) == ([], [[], []])


@pytest.mark.parametrize(
    ("name", "value", "cell"),
    [
        ("lag_trend", 1500.6, "+1,501"),
        ("lag_trend", -3.0, "-3"),
        ("lag_trend", 0.2, "0"),
        ("lost", 3.0, "3"),
        ("lost", 0, "0"),
    ],
)
def test_only_a_trend_has_a_sign(name: str, value: Any, cell: str) -> None:
    assert forecast_columns([group("a", **{name: value})])[1] == [[cell]]


@pytest.mark.parametrize("name", ["offsets_expire_by", "data_loss_not_before"])
def test_times_are_shown_in_utc_and_escaped(name: str) -> None:
    ((cell,),) = forecast_columns([group("a", **{name: datetime.fromisoformat("2026-03-01T01:30:00+02:00")})])[1]
    assert cell == '<time datetime="2026-02-28T23:30:00+00:00">2026-02-28 23:30</time>'


@pytest.mark.parametrize(
    ("lag", "unknown", "cell"),
    [
        (None, None, "-"),
        (None, 2, "-"),
        (12_345, None, "12,345"),
        (12_345, 0, "12,345"),
        (12_345, 2, "at least 12,345"),
    ],
)
def test_a_lag_with_unknown_ends_is_at_least_so_much(lag: int | None, unknown: int | None, cell: str) -> None:
    assert lag_cell(group("a", lag=lag, lag_unknown=unknown)) == cell


MANY = 230
"""More families than the header of a plan has."""


def test_families_are_counted_though_the_plan_lists_the_first_ones_only() -> None:
    groups = [group(f"f{n}-{tail}", family=f"f{n}-<number>") for n in range(MANY) for tail in "12"]
    alone = KeptGroup(group_id="alone-1", verdict="live", reason="in use", family="alone-<number>")
    listed: list[dict[str, Any]] = [
        {"name": f"f{n}-<number>", "groups": 2, "planned": 2, "newest": None, "growth_per_day": None, "owners": []}
        for n in range(200)
    ]
    made = plan(groups=groups, kept=[alone, KeptGroup(group_id="x", verdict="live", reason="")], families=tuple(listed))
    page = families_section(made)
    assert 'Families <span class="count">230</span>' in page
    assert "460 of 460 planned groups" in page
    assert "The first 200 are shown" in page
    assert "… and 220 more" in question(made, "report", "it has to be")


@pytest.mark.parametrize(("share", "shown"), [("0.3", "30%"), ("0.125", "12.5%"), ("0.005", "0.5%"), ("0.001", "0.1%")])
def test_a_share_of_a_rule_is_shown_as_it_is(share: str, shown: str, tmp_path: Path) -> None:
    file = policy_of(tmp_path, f"version: 1\nrules: [{{name: a, action: delete, max_share: {share}}}]\n")
    made = plan()
    page = policy_section(plan(policy=made.policy.by_file(file)))
    assert re.search(rf"at most {re.escape(shown)} of all groups", page)


def test_a_page_names_the_first_owners_of_a_family_and_the_first_patterns() -> None:
    """By bytes: with owners by last client, each of 200,000 groups of a family had its own, in one cell of 12 MB."""
    family = {"name": "f-<number>", "groups": 9_000, "planned": 1, "newest": None, "growth_per_day": None}
    made = plan(families=({**family, "owners": [f"client-{number}" for number in range(9_000)]},))
    page = families_section(made)
    assert "client-4</bdi></code> and 8,995 more" in page
    assert len(page) < 2_000
    page = policy_section(plan(policy=PlanPolicy(exclude=tuple(f"keep-{number}" for number in range(5_000)))))
    assert "keep-199</bdi></code> and 4,800 more" in page
    assert len(page) < 20_000


def test_a_page_shows_the_limits_that_demand_something() -> None:
    """By which connection owners are notified is no limit: a report of a plan with one failed."""
    page = policy_section(plan(policy=PlanPolicy(notify={"smtp": "smtp_default"}, require_commit_log=True)))
    assert "require_commit_log" in page
    assert not re.search("smtp|max_gap_seconds|refuse_share", page)


def outcomes_of(plan: Any) -> dict[str, Any]:
    return {item["group_id"]: item for item in record_of(plan)["outcomes"]}


def test_all_groups_are_there_and_those_to_look_at_come_first() -> None:
    plan, judged = plan_of(group_ids(500))
    data = json.loads(groups_json(plan, outcomes_of(plan), judged, "restore"))
    assert (data["total"], len(data["rows"])) == (500, 500)
    assert {row[0] for row in data["rows"]} == {*plan.group_ids, *plan.all_kept.column("group_id")}
    statuses = list(dict.fromkeys(row[1] for row in data["rows"]))
    assert statuses == ["failed", "kept", "deleted", "no_offsets", "settling", "moving", "live"]
    assert "deleted" in data["restorable"]
    by_id = {row[0]: row for row in data["rows"]}
    first = plan.groups[0]
    _, status, family, owner, lag, idle, expires, reason, _ = by_id[first.group_id]
    assert (data["words"][status], family, owner, reason) == ("deleted", first.family, first.owner, first.reason)
    (said,) = judged.filter(pc.field("group_id") == first.group_id).to_pylist()
    assert (lag, idle, expires) == (said["lag"], said["idle_seconds"], said["expires_at"])


def test_before_a_run_groups_are_planned_and_what_is_not_judged_is_unknown() -> None:
    plan, _ = plan_of(group_ids(20))
    data = json.loads(groups_json(plan, {}, None, ""))
    assert data["rows"][0][1] == "planned"
    assert {tuple(row[4:7]) for row in data["rows"]} == {(None, None, None)}


def test_nothing_in_it_can_end_the_script_element() -> None:
    plan, judged = plan_of(group_ids(20, "</script><!--\u2028\u202e<script>"))
    text = groups_json(plan, {}, judged, "</script>")
    assert "<" not in text
    assert text.isascii()
    assert any("</script><!--\u2028" in row[0] for row in json.loads(text)["rows"])


def test_long_ids_are_cut_and_named_as_such() -> None:
    plan, judged = plan_of(group_ids(20, "x" * 1_000))
    data = json.loads(groups_json(plan, {}, judged, ""))
    assert all(row[8] for row in data["rows"])
    assert all(re.search(r"… \(1,\d+ characters\)$", row[0]) for row in data["rows"])


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_BYTES"])
def test_what_is_over_a_limit_is_left_out_from_the_end_and_counted(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    plan, judged = plan_of(group_ids(300))
    whole = json.loads(groups_json(plan, {}, judged, ""))["rows"]
    monkeypatch.setattr(rows, limit, 50 if limit == "MOST_ROWS" else 10_000)
    data = json.loads(groups_json(plan, {}, judged, ""))
    assert 20 < len(data["rows"]) <= 50 or limit == "MOST_BYTES"
    assert 0 < len(data["rows"]) < 100
    assert data["total"] == 300
    assert [row[0] for row in data["rows"]] == [row[0] for row in whole[: len(data["rows"])]]


def test_names_of_any_script_leave_it_within_its_bound() -> None:
    """docs/howto/clean-up.md: the table has at most 4 MB, whatever the ids are. Most letters are six bytes of JSON."""
    owners = [f"владелец-отдела-{number:05}" for number in range(20_000)]
    plan, judged = plan_of([f"{owner}.x" for owner in owners])
    kept = [replace(group, owner=group.group_id.removesuffix(".x"), family=None) for group in plan.all_kept]
    planned = [replace(group, owner=group.group_id.removesuffix(".x"), family=None) for group in plan.planned]
    text = groups_json(replace(plan, groups=planned, kept=kept), {}, judged, "")
    assert len(text) < rows.MOST_BYTES + 10_000
    data = json.loads(text)
    assert 5_000 < len(data["rows"]) < data["total"]
    assert {row[3] for row in data["rows"]} <= set(owners)


def test_the_command_that_restores_is_one() -> None:
    plan, _ = plan_of(group_ids(30))
    assert restore_command(plan, {}, "/srv") == ""
    assert restore_command(plan, {"a": {"outcome": "would_delete"}}, "/srv") == ""
    command = restore_command(plan, outcomes_of(plan), "/srv/it's here")
    for groups, more in (([], ""), (["-a", "b c"], " -- '-a' 'b c'")):
        args = parse(shlex.split(command + more)[1:])
        assert (args.command, args.plan_id, args.storage_path) == ("restore", plan.plan_id, "/srv/it's here")
        assert (args.cluster, args.conn_id, args.yes, args.group_ids) == ("prod-eu", "CONNECTION", True, groups)
    assert "--storage-path" not in restore_command(plan, outcomes_of(plan), "")
