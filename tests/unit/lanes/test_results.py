from __future__ import annotations

import json
from pathlib import Path

from tests.lanes.results import Records, parse_records, read_records
from tests.lanes.screen import closing_lines, progress_line


def records(*phases: tuple[str, str, str, float], total: int = 0) -> Records:
    names = ("test", "phase", "outcome", "seconds")
    lines = [json.dumps({"total": total})] if total else []
    lines += [json.dumps(dict(zip(names, phase, strict=True))) for phase in phases]
    return parse_records(f"{line}\n" for line in lines)


def passing(name: str, seconds: float = 1.0) -> tuple[tuple[str, str, str, float], ...]:
    return ((name, "setup", "passed", 0.25), (name, "call", "passed", seconds), (name, "teardown", "passed", 0.25))


def test_a_test_passes_by_its_call_and_fails_by_any_phase() -> None:
    found = records(
        *passing("good"),
        ("no setup", "setup", "failed", 1),
        ("no setup", "teardown", "passed", 0),
        ("no call", "setup", "passed", 0),
        ("no call", "call", "failed", 0),
        ("no call", "teardown", "passed", 0),
        *passing("no teardown")[:2],
        ("no teardown", "teardown", "failed", 0),
        ("left out", "setup", "skipped", 0),
        ("left out", "teardown", "passed", 0),
        ("broken.py", "collect", "failed", 0),
        ("under way", "setup", "passed", 0),
    )
    assert found.named("passed") == ["good"]
    assert found.named("failed") == ["no setup", "no call", "no teardown", "broken.py"]
    assert found.named("skipped") == ["left out"]
    assert (found.tests["good"].seconds, found.tests["good"].setup_seconds) == (1.5, 0.25)


def test_a_repetition_starts_over_and_is_remembered() -> None:
    first = (("flaky", "setup", "passed", 1.0), ("flaky", "call", "rerun", 1.0), ("flaky", "teardown", "passed", 1.0))
    found = records(*first, *passing("flaky"), *passing("steady"))
    assert found.named("passed") == ["flaky", "steady"]
    assert found.repeated == ["flaky"]
    assert found.tests["flaky"].seconds == 4.5
    again = records(*first, ("flaky", "setup", "passed", 1.0), ("flaky", "call", "failed", 1.0))
    assert again.named("failed") == ["flaky"]


def test_half_a_line_is_left_for_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "lane.jsonl"
    assert read_records(path).total == 0
    path.write_text('{"total": 2}\n{"total": 3}\n{"test": "a", "pha')
    assert read_records(path) == Records(total=5)


def test_progress_is_one_line() -> None:
    assert progress_line("lint", 61.9, Records()) == "lint           1:01  "
    found = records(*passing("a"), ("b", "call", "failed", 1.0), total=7)
    assert progress_line("unit", 5, found) == "unit           0:05     2 of 7 tests, 1 failed"


def test_the_summary_ends_with_the_totals_of_all_lanes() -> None:
    unit, broken = records(*passing("u1", 2.0), *passing("u2", 9.0)), records(("b", "call", "failed", 5.0))
    lines = closing_lines([("unit", unit), ("brokers", broken)], ["brokers"])
    assert [line.split()[-1] for line in lines[2:5]] == ["u2", "b", "u1"]
    assert lines[-2:] == ["FAILED    brokers   b", "2 passed, 1 failed"]
    assert closing_lines([("unit", unit)], ["lint"])[-2:] == ["FAILED    lint", "2 passed, 1 failed"]
    assert closing_lines([("unit", unit)], [])[-1] == "2 passed, 0 failed"


def test_what_was_skipped_or_repeated_is_named() -> None:
    found = records(("s", "setup", "skipped", 0.0), ("r", "call", "rerun", 0.0), *passing("r"))
    lines = closing_lines([("ui", found)], [])
    assert lines[-4:] == ["repeated  ui        r", "skipped   ui        s", "1 skipped", "1 passed, 0 failed"]
