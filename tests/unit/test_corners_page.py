"""The page of corners names tests; they are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_corner_has_tests_that_exist() -> None:
    rows = [
        line for line in (ROOT / "docs" / "concepts" / "corners.md").read_text().splitlines() if line.startswith("| ")
    ][1:]
    named = [re.findall(r"`(test_\w+)`", row.rpartition(" | ")[2]) for row in rows]
    assert len(rows) > 25
    assert all(named), "each row names at least one"
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for names in named for name in names if f"def {name}(" not in written] == []
