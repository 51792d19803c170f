"""Each row of the page on compatibility has a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
FOLDER = ROOT / "tests" / "unit" / "admin" / "client"


def test_every_product_is_held_by_a_test() -> None:
    table = PAGE.partition("\n## Products\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| product")]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert all(len(names) == 1 for names in named), "a row without a test"
    written = {
        name
        for file in ("test_products.py", "test_listing.py")
        for name in re.findall(r"^async def (test_\w+)", (FOLDER / file).read_text(encoding="utf-8"), re.M)
    }
    assert {name for names in named for name in names} <= written
    assert len(rows) >= 8
