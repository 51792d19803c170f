"""Versions of the stored formats. A reader refuses a version that it does not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

FORMAT = 1
"""The version of every JSON file (manifests, backups, audits, backlogs) but plans, and of the rows it vouches for."""

PLAN_FORMAT = 3
"""The version of plans. 1 had the groups in the JSON file; 2 had no rules, owners and families. Both are still read."""

PLAN_FORMATS = (FORMAT, 2, PLAN_FORMAT)
"""The versions of plans that are read."""

PRUNE_PLAN_FORMAT = 1
"""The version of plans that prune topics of live groups."""

TABLE_FORMAT = 1
"""The version of the columns of catalogue tables. A job refuses to write to a table of another version."""

OBSERVATIONS_FORMAT = 2
"""The version of a snapshot's observations. Another version is not read: the snapshot is reduced again. In 1, the
digests were those of a function of Spark's."""

OBSERVATIONS_FORMATS = (1, OBSERVATIONS_FORMAT)
"""The versions of observations that are known, such as to remove them."""

RECORD_FORMAT = 1
"""The version of the entries by which ``process_group_backlog`` is restarted."""


class UnknownFormatError(ValueError):
    """A file of a version that this package does not read."""

    def __init__(self, found: object, known: Collection[int] = (FORMAT,)) -> None:
        *others, last = map(str, known)
        reads = f"{', '.join(others)} and {last}" if others else last
        super().__init__(f"it has the format {found!r}; this version reads {reads}")
        self.found = found


def check_format(content: Mapping[str, Any], known: Collection[int] = (FORMAT,)) -> int:
    """Return the file's version. Raises ``UnknownFormatError`` for one that this package does not read."""
    found = content.get("format")
    if isinstance(found, bool) or not isinstance(found, int) or found not in known:
        raise UnknownFormatError(found, known)
    return found
