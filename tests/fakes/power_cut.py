"""A disk that loses what was not fsynced: content of files, and names in folders, those of folders too."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


class PowerCut:
    """The durable part of a folder. What is in it at first is durable.

    :param folder: everything below it is lost by ``happen`` unless it was fsynced with all folders above it.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._names: dict[int, dict[str, int]] = {}
        self._sizes: dict[int, int] = {}
        for path in (folder, *folder.rglob("*")):
            self._keep(path)
        fsync = os.fsync

        def sync(descriptor: int) -> None:
            fsync(descriptor)
            self._keep(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

        monkeypatch.setattr(os, "fsync", sync)

    def happen(self) -> None:
        """Lose what is not durable."""
        for path in list(self._lost(self._folder)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _keep(self, path: Path) -> None:
        number = path.stat().st_ino
        if path.is_dir():
            self._names[number] = {}
            for entry in path.iterdir():
                with suppress(FileNotFoundError):
                    self._names[number][entry.name] = entry.stat().st_ino
        else:
            self._sizes[number] = path.stat().st_size

    def _lost(self, folder: Path) -> Iterator[Path]:
        durable = self._names.get(folder.stat().st_ino, {})
        for entry in folder.iterdir():
            now = entry.stat()
            if durable.get(entry.name) != now.st_ino:
                yield entry
            elif entry.is_dir():
                yield from self._lost(entry)
            elif self._sizes.get(now.st_ino) != now.st_size:
                yield entry
