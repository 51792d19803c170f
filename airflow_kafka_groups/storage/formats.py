"""The version of the stored formats. A reader refuses a version that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT = 1
"""The version of every JSON file (manifests, plans, backups, journals, backlogs) and of the rows it vouches for."""

TABLE_FORMAT = 1
"""The version of the columns of catalogue tables. A job refuses to write to a table of another version."""


class UnknownFormatError(ValueError):
    """A file of a version that this package does not read."""

    def __init__(self, found: object) -> None:
        super().__init__(f"it has the format {found!r}; this version reads {FORMAT}")
        self.found = found


def check_format(content: Mapping[str, Any]) -> None:
    """Raise ``UnknownFormatError`` for a file of a version that this package does not read."""
    found = content.get("format")
    if isinstance(found, bool) or found != FORMAT:
        raise UnknownFormatError(found)
