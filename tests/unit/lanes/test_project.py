"""Every test is in exactly one lane."""

import sys
from pathlib import Path

import pytest

from tests.lanes import pythons
from tests.lanes.__main__ import notes
from tests.lanes.lane import choose
from tests.lanes.project import LANES, MISSING_VERSIONS, ON_REQUEST, PARTS, ROOT, SHARES, share_arguments
from tests.lanes.schedule import Schedule


def files_of(name: str) -> set[Path]:
    arguments = share_arguments(name)
    ignored = [ROOT / text.removeprefix("--ignore=") for text in arguments if text.startswith("--")]
    found: set[Path] = set()
    for path in (ROOT / text for text in arguments if not text.startswith("--")):
        found |= {path} if path.is_file() else set(path.rglob("test_*.py"))
    return {file for file in found if not any(file.is_relative_to(path) for path in ignored)}


def test_every_test_file_is_in_exactly_one_lane() -> None:
    lanes = [files_of(name) for name in SHARES]
    assert all(lanes)
    assert set().union(*lanes) == set((ROOT / "tests").rglob("test_*.py"))
    assert sum(map(len, lanes)) == len(set().union(*lanes))


def test_every_share_is_run_by_a_lane_of_its_name() -> None:
    commands = {lane.name: lane.commands for lane in LANES}
    for name in (*SHARES, *PARTS):
        (command,) = commands[name]
        share, chosen = PARTS.get(name, (name, ""))
        assert command[-len(share_arguments(share)) :] == share_arguments(share)
        assert ("-k" in command) is bool(chosen)
        assert "thorough" in command


def test_parts_of_a_share_have_no_test_in_common_and_leave_none_out() -> None:
    for share in SHARES:
        expressions = {chosen for of_share, chosen in PARTS.values() if of_share == share}
        if expressions:
            (some,) = (text for text in expressions if f"not ({text})" in expressions)
            assert expressions == {some, f"not ({some})"}


def test_all_lanes_can_be_scheduled() -> None:
    schedule = Schedule(LANES, capacity=1)
    names = []
    while (lane := schedule.start_next()) is not None:
        names.append(lane.name)
        schedule.end(lane.name, succeeded=True)
    assert schedule.is_finished
    assert set(names) == {lane.name for lane in LANES}


def test_all_promised_versions_of_python_are_tried_or_named() -> None:
    names = {lane.name for lane in LANES}
    tried = {version for version in pythons.others() if f"python-{version}" in names}
    assert tried.isdisjoint(MISSING_VERSIONS)
    assert tried | set(MISSING_VERSIONS) == set(pythons.others())
    assert len(pythons.others()) == len(pythons.promised()) - 1
    assert notes() == [f"not tried: Python {version}, which is not installed here" for version in MISSING_VERSIONS]


def test_all_unit_tests_on_another_version_run_on_request_only() -> None:
    names = {lane.name for lane in LANES}
    assert names.isdisjoint(lane.name for lane in ON_REQUEST)
    for lane in ON_REQUEST:
        assert lane.name in {each.name for each in choose((*LANES, *ON_REQUEST), [lane.name])}


def test_an_interpreter_that_does_not_start_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pythons.find("3.99") is None
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / f"python{own}").symlink_to(sys.executable)
    pythons.find.cache_clear()
    assert pythons.find(own) is not None
    pythons.find.cache_clear()
