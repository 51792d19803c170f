"""A row of what ``explain`` shows."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One check."""

    check: str
    finding: str
    evidence: str
    change: str = ""
