"""What stdout has: rows as a table, JSON or CSV."""

import csv
import json
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
import yaml

from airflow_kafka_groups.cli.output import FORMATS, Output, Table, say
from airflow_kafka_groups.exceptions import BrokerError

ROWS = Table("groups", ("group_id", "lag", "ok", "why"), [("a", 5, True, None), ("b,c", None, False, ["x", "y"])])


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def written(form: str, table: Table = ROWS, summary: Any = None, stream: StringIO | None = None) -> str:
    stream = StringIO() if stream is None else stream
    Output(form, stream).write(table, summary)
    return stream.getvalue()


def test_json_is_a_list_of_objects_or_a_summary_around_it_and_yaml_has_the_same() -> None:
    rows = [{"group_id": "a", "lag": 5, "ok": True, "why": None}, dict(zip(ROWS.columns, ROWS.rows[1], strict=True))]
    summary = {"plan_id": "p", "at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert json.loads(written("json")) == rows
    found = json.loads(written("json", summary=summary))
    assert (found["plan_id"], found["groups"]) == ("p", rows)
    assert yaml.safe_load(written("yaml", summary=summary)) == found


def test_csv_has_a_head_and_the_rows_only() -> None:
    rows = list(csv.reader(StringIO(written("csv", summary={"plan_id": "p"}))))
    assert rows == [["group_id", "lag", "ok", "why"], ["a", "5", "yes", ""], ["b,c", "", "no", "x; y"]]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@a", "\ta", "\ra", "a\rb,c", "a\r\nb", "a\nb", 'a"b', " a"])
def test_every_name_is_read_back_from_csv_as_it_is(name: str) -> None:
    """What is read from it is deleted: a name with a mark for spreadsheets before it would be another group's."""
    lines = written("csv", Table("groups", ("group_id", "lag"), [(name, 5), ("b", 6)]))
    assert list(csv.reader(StringIO(lines, newline=""))) == [["group_id", "lag"], [name, "5"], ["b", "6"]]
    assert lines.startswith("group_id,lag\n"), "lines end as other tools of a shell write them"


def test_a_table_is_aligned_below_its_summary() -> None:
    table = ["GROUP_ID  LAG  OK   WHY", "a         5    yes  -", "b,c       -    no   x; y"]
    assert written("table").splitlines() == table
    summary: dict[str, Any] = {"plan_id": "p", "counts": {"found": 3, "stale": 1}, "lease": None, "warnings": []}
    lines = ["plan_id   p", "counts    found 3, stale 1", "lease     -", "", *table]
    assert written("table", summary=summary).splitlines() == lines
    assert written("table", Table("groups", ("a",)), {"plan_id": "p"}) == "plan_id  p\n"


def test_a_table_has_no_digits_that_nobody_reads() -> None:
    idle = Table("groups", ("idle",), [(90.220747,)])
    assert written("table", idle) == "IDLE\n90.2\n"
    assert "90.220747" in written("csv", idle)
    assert json.loads(written("json", idle)) == [{"idle": 90.220747}]


def test_nothing_is_a_head_only() -> None:
    nothing = Table("groups", ("a", "b"))
    assert [written(form, nothing) for form in FORMATS] == ["A  B\n", "[]\n", "", "a,b\n", "[]\n"]


@pytest.mark.parametrize("form", ["table", "json", "csv", "yaml"])
def test_no_format_lets_a_name_command_the_terminal(form: str) -> None:
    """Who looks at CSV on a terminal reads it as they read a table; a pipe or a file has each name as it is."""
    table = Table("groups", ("group_id",), [("a\x1b]0;owned\x07\x1b[2J\x9b1m\u202eb\rc[red]",)])
    for stream in (Terminal(), StringIO()) if form == "table" else (Terminal(),):
        shown = written(form, table, stream=stream)
        assert {letter for letter in shown if not letter.isprintable()} <= {"\n"}
        assert "[red]" in shown
    assert list(csv.reader(StringIO(written("csv", table), newline="")))[1] == list(table.rows[0])


def test_one_long_id_does_not_make_every_line_of_a_table_as_long() -> None:
    """By bytes: a table of 200,000 groups was of 6 GB if one of them has an id of the longest kind."""
    stream = StringIO()
    rows = [("x" * 32_767, "Empty"), *((f"g{number}", "Empty") for number in range(1_000))]
    Output("table", stream).write(Table("groups", ("group_id", "state"), rows))
    assert len(stream.getvalue()) < 2 * 32_767 + 20 * 1_000
    assert {line for line in stream.getvalue().splitlines() if line.startswith("g99")} >= {"g999      Empty"}


@pytest.mark.safety
def test_a_brokers_message_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    error = BrokerError(41, "NOT_CONTROLLER", "no\x1b]0;owned\x07\x1b[2J\x9b1m", api="Metadata")
    say(f"error: {error}\nanother line, as policies' errors have")
    assert capsys.readouterr().err == (
        "error: Metadata: NOT_CONTROLLER (41): no\\x1b]0;owned\\x07\\x1b[2J\\x9b1m\n"
        "another line, as policies' errors have\n"
    )
