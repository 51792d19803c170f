"""The data of the table of all groups: complete, in order, bounded, and harmless in a page."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import parse
from airflow_kafka_groups.report import explorer as rows
from airflow_kafka_groups.report.explorer import groups_json
from airflow_kafka_groups.report.groups import restore_command
from tests.ui.report_scene import group_ids, plan_of, record_of


def outcomes_of(plan: Any) -> dict[str, Any]:
    return {item["group_id"]: item for item in record_of(plan)["outcomes"]}


def test_all_groups_are_there_and_those_to_look_at_come_first() -> None:
    plan, judged = plan_of(group_ids(500))
    data = json.loads(groups_json(plan, outcomes_of(plan), judged, "restore"))
    assert (data["total"], len(data["rows"])) == (500, 500)
    assert {row[0] for row in data["rows"]} == {*plan.group_ids, *plan.all_kept.column("group_id")}
    statuses = [data["kinds"][row[1]] for row in data["rows"]]
    assert list(dict.fromkeys(statuses)) == ["failed", "kept", "deleted", "no_offsets", "settling", "moving", "live"]
    assert [data["kinds"][number] for number in data["restorable"]] == ["deleted"]
    by_id = {row[0]: row for row in data["rows"]}
    group = plan.groups[0]
    _, status, family, owner, lag, idle, expires, reason = by_id[group.group_id]
    assert (data["statuses"][status], reason) == ("deleted", group.reason)
    assert (data["families"][family] if family >= 0 else None, data["owners"][owner] if owner >= 0 else None) == (
        group.family,
        group.owner,
    )
    assert (lag, idle, expires) == judged[group.group_id][:3]


def test_before_a_run_groups_are_planned_and_what_is_not_judged_is_unknown() -> None:
    plan, _ = plan_of(group_ids(20))
    data = json.loads(groups_json(plan, {}, {}, ""))
    assert data["kinds"][0] == "planned"
    assert data["restorable"] == []
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
    assert data["cut"] == list(range(20))
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
    assert {data["owners"][row[3]] for row in data["rows"]} <= set(owners)


def test_the_command_that_restores_is_one() -> None:
    plan, _ = plan_of(group_ids(30))
    assert restore_command(plan, {}, "/srv") == ""
    assert restore_command(plan, {"a": {"outcome": "would_delete"}}, "/srv") == ""
    command = restore_command(plan, outcomes_of(plan), "/srv/it's here")
    for groups, more in (([], ""), (["-a", "b c"], " -- '-a' 'b c'")):
        args = parse(shlex.split(command + more)[1:])
        assert (args.command, args.plan_id, args.storage_path) == ("restore", plan.plan_id, "/srv/it's here")
        assert (args.cluster, args.conn_id, args.yes, args.groups) == ("prod-eu", "CONNECTION", True, groups)
    assert "--storage-path" not in restore_command(plan, outcomes_of(plan), "")
