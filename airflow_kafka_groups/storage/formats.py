"""The version of the stored formats, and the digest (SHA-256 of canonical JSON) by which content is recognized."""

from __future__ import annotations

import hashlib
import json
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


def canonical_json(content: Mapping[str, Any]) -> bytes:
    """Write the same content always as the same bytes: keys sorted, no spaces, ASCII, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of all fields except ``digest``. Raises ``TypeError`` or ``ValueError`` for what is no JSON."""
    return hashlib.sha256(canonical_json({name: content[name] for name in content if name != "digest"})).hexdigest()
