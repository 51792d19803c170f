"""How the counts of records are called, which need no numpy."""

from __future__ import annotations

RECORDS, CORRUPT, FUTURE = "records", "corrupt", "future"
