"""Versions of the stored formats. A reader refuses a version that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT = 1
"""The version of every JSON file (manifests, plans, backups, audits, backlogs) and of the rows it vouches for."""

STATE_FORMAT = 2
"""The version of the state of a history. 1 had no log ends."""


class UnknownFormatError(ValueError):
    """A file of a version that this package does not read."""

    def __init__(self, found: object) -> None:
        super().__init__(f"it has the format {found!r}; this version reads {FORMAT}")
        self.found = found


def check_format(content: Mapping[str, Any]) -> None:
    """Raise ``UnknownFormatError`` unless the file has the version that this package reads."""
    if content.get("format") != FORMAT:
        raise UnknownFormatError(content.get("format"))
