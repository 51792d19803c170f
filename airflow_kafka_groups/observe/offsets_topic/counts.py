"""The names of the counts of records. A driver without numpy, which lacks all else of this folder, needs them."""

from __future__ import annotations

RECORDS, CORRUPT, FUTURE = "records", "corrupt", "future"
