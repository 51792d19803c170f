"""A folder on NFS, as one machine sees it: names that were absent stay so until somebody opens their folder."""

import os
from pathlib import Path
from typing import Any

import pytest


class NetworkFolder:
    """What one machine remembers as absent, and another one has created since.

    ``hidden`` are such files and folders.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hidden: set[Path] = set()
        read_bytes, open_descriptor = Path.read_bytes, os.open
        status, scan = Path.stat, os.scandir

        def read(path: Path) -> bytes:
            self._require_known(path)
            return read_bytes(path)

        def opened(path: Any, *how: Any, **more: Any) -> int:
            self._require_known(Path(path))
            self._ask(Path(path))
            return open_descriptor(path, *how, **more)

        def looked_at(path: Path, **how: Any) -> os.stat_result:
            self._require_known(path)
            return status(path, **how)

        def scanned(path: Any) -> Any:
            self._require_known(Path(path))
            self._ask(Path(path))
            return scan(path)

        monkeypatch.setattr(Path, "stat", looked_at)
        monkeypatch.setattr(os, "scandir", scanned)
        monkeypatch.setattr(Path, "read_bytes", read)
        monkeypatch.setattr(os, "open", opened)

    def _require_known(self, path: Path) -> None:
        if {path, *path.parents} & self.hidden:
            raise FileNotFoundError(2, "No such file or directory", str(path))

    def _ask(self, folder: Path) -> None:
        self.hidden = {path for path in self.hidden if path.parent != folder}
