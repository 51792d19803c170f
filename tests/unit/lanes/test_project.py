"""Every test is in exactly one lane."""

from pathlib import Path

from tests.lanes import pythons
from tests.lanes.__main__ import notes
from tests.lanes.project import LANES, MISSING_VERSIONS, PARTS, ROOT, SHARES, share_arguments


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


def test_all_promised_versions_of_python_are_tried_or_named() -> None:
    names = {lane.name for lane in LANES}
    tried = {version for version in pythons.others() if f"python-{version}" in names}
    assert tried.isdisjoint(MISSING_VERSIONS)
    assert tried | set(MISSING_VERSIONS) == set(pythons.others())
    assert len(pythons.others()) == len(pythons.promised()) - 1
    assert notes() == [f"not tried: Python {version}, which is not installed here" for version in MISSING_VERSIONS]
