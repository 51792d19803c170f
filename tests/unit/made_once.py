"""Storages that many tests begin with: made once in a process, and written from memory for each test."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_MADE: dict[str, tuple[str, dict[str, tuple[bytes, int]], str]] = {}


def made_once(name: str, storage: Path, make: Callable[[], Result]) -> Result:
    """Fill a storage with what ``make`` wrote into the first one of this name; return what it returned.

    A path of the first storage in the returned value is one of this storage.

    :param name: unique for what is made.
    :param make: writes into ``storage`` and returns what JSON can express.
    """
    if name not in _MADE:
        returned = make()
        files = [path for path in storage.rglob("*") if path.is_file()]
        written = {str(path.relative_to(storage)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
        _MADE[name] = str(storage), written, json.dumps(returned)
        return returned
    first, written, returned_text = _MADE[name]
    for relative, (content, modified) in written.items():
        path = storage / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(modified, modified))
    found: Result = json.loads(returned_text.replace(first, str(storage)))
    return found
