"""Every test is in exactly one lane."""

from __future__ import annotations

from pathlib import Path

from tests.lanes.project import LANES, ROOT, SHARES, share_arguments
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
    for name in SHARES:
        (command,) = commands[name]
        assert command[-len(share_arguments(name)) :] == share_arguments(name)
        assert "thorough" in command


def test_all_lanes_can_be_scheduled() -> None:
    schedule = Schedule(LANES, capacity=1)
    names = []
    while (lane := schedule.start_next()) is not None:
        names.append(lane.name)
        schedule.end(lane.name, succeeded=True)
    assert schedule.is_finished
    assert set(names) == {lane.name for lane in LANES}
