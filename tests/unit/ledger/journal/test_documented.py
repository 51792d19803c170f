"""docs/formats.md: an entry of the journal has the fields that its row names, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages import DOCS
from tests.unit.change.deletion.steps import cluster, delete
from tests.unit.change.scene import backed_up, layout_in

_OF_EVERY_ENTRY = {"format", "kind", "at", "previous"}
_OF_THE_CHAIN = {"begun", "entries", "head"}
"""What ties the last entry of a run to the others."""
JOURNAL = (DOCS / "formats.md").read_text().partition("\n## Journal\n")[2].partition("\n## ")[0]


def documented(kind: str) -> set[str]:
    """Return the fields in the row of a kind."""
    row = next(line for line in JOURNAL.splitlines() if line.startswith(f"| `{kind}` |"))
    named = set(re.findall(r"`(\w+)`", row.partition(" | ")[2]))
    if "begun" not in named:
        return named
    return named ^ documented("begun") ^ {"begun"}  # those of both are named as exceptions


@pytest.mark.parametrize("kind", ["begun", "intent", "outcome", "ended"])
async def test_an_entry_has_the_fields_of_the_page(tmp_path: Path, kind: str) -> None:
    admin, layout = cluster("a", "b"), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    await delete(admin, layout, plan)
    entries: list[dict[str, Any]] = [json.loads(path.read_text()) for path in (tmp_path / "_journal").rglob("*.json")]
    (entry,) = (entry for entry in entries if entry["kind"] == kind)
    found = set(entry) - _OF_EVERY_ENTRY - (_OF_THE_CHAIN if kind == "ended" else {"checkpoint"})
    assert found == documented(kind)
