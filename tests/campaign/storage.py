"""An object store in memory, in the shape of fsspec: exclusive creation, late listings, failing and lost calls."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from tests.campaign.process import Process

T = TypeVar("T")

LATE_SECONDS = 3_600.0
"""How long a new file may be missing from a late listing."""


class ClientError(Exception):
    """An error of a storage's own library, which is no ``OSError``."""


ERRORS: tuple[type[Exception], ...] = (
    OSError,
    PermissionError,
    TimeoutError,
    ClientError,
    ConnectionResetError,
    ValueError,
)


class Store:
    """What is stored, and since when."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.since: dict[str, float] = {}


class ModelFileSystem:
    """The store as one process reaches it."""

    protocol = ("model", "abfs")  # it creates a file by its condition

    def __init__(self, store: Store, process: Process) -> None:
        self.store = store
        self.process = process

    def pipe_file(self, key: str, data: bytes, mode: str = "overwrite") -> None:
        def write() -> None:
            if mode == "create" and key in self.store.files:
                raise FileExistsError(key)
            self.store.files[key] = bytes(data)
            self.store.since[key] = self.process.world.clock

        self._call("create", write)

    def cat_file(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        def read() -> bytes:
            try:
                return self.store.files[key][start:end]
            except KeyError:
                raise FileNotFoundError(key) from None

        return self._call("read", read)

    def ls(self, key: str, detail: bool = True) -> list[dict[str, str]]:
        def entries() -> list[dict[str, str]]:
            found = self._names(key, LATE_SECONDS if self.process.stale else 0.0)
            if not found:
                raise FileNotFoundError(key)
            kinds = {True: "file", False: "directory"}
            return [{"name": f"{key}/{name}", "type": kinds[f"{key}/{name}" in self.store.files]} for name in found]

        assert detail
        return self._call("ls", entries)

    def invalidate_cache(self, key: str | None = None) -> None:
        """Forget cached listings: this store has none."""

    def exists(self, key: str) -> bool:
        """Return whether there is a file or folder; false on any error, as fsspec's base class does."""
        try:
            return self._call("read", lambda: key in self.store.files or bool(self._names(key, 0.0)))
        except Exception:  # noqa: BLE001  # this is what is modelled
            return False

    def unlink(self, key: str) -> None:
        self._call("create", lambda: self.store.files.pop(key))

    def _names(self, key: str, late: float) -> list[str]:
        newest = self.process.world.clock - late
        inside = [name for name in self.store.files if name.startswith(f"{key}/") and self.store.since[name] <= newest]
        return sorted({name[len(key) + 1 :].split("/")[0] for name in inside})

    def _call(self, label: str, effect: Callable[[], T]) -> T:
        process = self.process
        due = process.at(label)
        if (fault := due.get("error")) is not None:
            raise ERRORS[fault.arg % len(ERRORS)]("the storage failed")
        process.stale = "stale" in due
        result = effect()
        process.after(due)
        if (fault := due.get("lost")) is not None:
            raise ERRORS[fault.arg % len(ERRORS)]("the answer of the storage was lost")
        return result


class ModelPath:
    """A path in the store."""

    def __init__(self, fs: ModelFileSystem, path: str) -> None:
        self.fs = fs
        self.path = path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> ModelPath:
        return ModelPath(self.fs, self.path.rpartition("/")[0])

    def __truediv__(self, part: str) -> ModelPath:
        return ModelPath(self.fs, f"{self.path}/{part}")

    def __str__(self) -> str:
        return f"model://{self.path}"

    def exists(self) -> bool:
        return self.fs.exists(self.path)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Create the folder: an object store has none."""

    def iterdir(self) -> Iterator[ModelPath]:
        return iter([self / entry["name"].rpartition("/")[2] for entry in self.fs.ls(self.path)])

    def open(self, mode: str, /) -> IO[Any]:
        return io.BytesIO(self.read_bytes()) if "r" in mode else _Written(self)

    def read_bytes(self) -> bytes:
        return self.fs.cat_file(self.path)

    def write_bytes(self, data: bytes, /) -> int:
        self.fs.pipe_file(self.path, data)
        return len(data)

    def unlink(self) -> None:
        self.fs.unlink(self.path)

    def rmdir(self) -> None:
        """Remove the folder: an object store has none."""


class _Written(io.BytesIO):
    """A file that is being written: it is there, as a whole, when it is closed."""

    def __init__(self, path: ModelPath) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._path.write_bytes(data)
