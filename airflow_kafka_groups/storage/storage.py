"""A storage as the jobs use it: ``LocalStorage``, or for everything else Hadoop's (``spark.files``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from airflow_kafka_groups.exceptions import StorageError, first_line

_READERS = 8


class Storage(ABC):
    """The file system of a folder. Each call raises ``StorageError`` naming the path.

    Subclasses have the calls without checks and names, which begin with an underscore.
    """

    is_local: ClassVar[bool] = False
    """Whether the files are on a local disk."""

    _errors: ClassVar[tuple[type[Exception], ...]] = (OSError, UnicodeDecodeError)
    """What a subclass's calls raise."""

    def direct(self, path: str) -> Path | None:
        """Return the path of a file on a local disk that may be read without this class; ``None`` for any other."""
        return None

    def beside(self, path: str, name: str) -> str:
        """Return the path of a file in the same folder."""
        with self._named(f"{path} cannot be found"):
            folder = self._parent(path)
        if folder is None:
            raise StorageError(f"{path} is the root of its storage: give a folder in it")
        return f"{folder.rstrip('/')}/{name}"

    @abstractmethod
    def _parent(self, path: str) -> str | None: ...

    def folders(self, folder: str) -> list[str]:
        """Return the sorted names of the folders in a folder; none if it does not exist."""
        with self._named(f"{folder} cannot be listed"):
            return self._folders(folder)

    @abstractmethod
    def _folders(self, folder: str) -> list[str]: ...

    def files(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder; none if it does not exist."""
        with self._named(f"{folder} cannot be listed"):
            return self._files(folder)

    @abstractmethod
    def _files(self, folder: str) -> list[str]: ...

    def files_at(self, path: str) -> list[str]:
        """Return what ``files`` does, and the name of a file itself that has this path, as Hadoop lists it."""
        return self.files(path)

    def files_below(self, folder: str) -> dict[tuple[str, str], int]:
        """Return the sizes of all files in the folders of a folder by (their folder's name, name)."""
        with self._named(f"{folder} cannot be listed"):
            return self._files_below(folder)

    @abstractmethod
    def _files_below(self, folder: str) -> dict[tuple[str, str], int]: ...

    def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        with self._named(f"{path} cannot be read"):
            return self._read(path)

    @abstractmethod
    def _read(self, path: str) -> bytes: ...

    def read_text(self, path: str) -> str:
        """Read a small file."""
        with self._named(f"{path} cannot be read"):
            return self._read(path).decode()

    def read_texts(self, paths: Sequence[str], *, skip_unreadable: bool = False) -> list[str]:
        """Read many small files at once, in the order of their paths.

        :param skip_unreadable: return an empty string for a file that cannot be read, instead of raising.
        """

        def read(path: str) -> str:
            with suppress(StorageError) if skip_unreadable else nullcontext():
                return self.read_text(path)
            return ""

        with ThreadPoolExecutor(_READERS, thread_name_prefix="read") as readers:
            return list(readers.map(read, paths))

    def read_if_there(self, path: str) -> str | None:
        """Read a small file; return ``None`` only if the storage says that there is no such file."""
        return self.read_text(path) if self.exists(path) else None

    def has_only(self, path: str, columns: Collection[str]) -> bool:
        """Return whether a file is Parquet that has no other columns than these."""
        try:
            with self._named(f"{path} cannot be read"):
                return self._columns(path) <= {*columns}
        except StorageError:
            return False

    @abstractmethod
    def _columns(self, path: str) -> set[str]: ...

    def count_rows(self, paths: Iterable[str]) -> int:
        """Count the rows of Parquet files, from their footers."""
        rows = 0
        for path in paths:
            with self._named(f"{path} cannot be read"):
                rows += self._rows(path)
        return rows

    @abstractmethod
    def _rows(self, path: str) -> int: ...

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        with self._named(f"{path} cannot be looked for"):
            return self._exists(path)

    @abstractmethod
    def _exists(self, path: str) -> bool: ...

    def written_at(self, path: str) -> datetime:
        """Return when a file was written, by the storage's clock."""
        with self._named(f"{path} cannot be looked for"):
            return self._written_at(path)

    @abstractmethod
    def _written_at(self, path: str) -> datetime: ...

    def write_text(self, path: str, text: str, *, replace: bool = True) -> None:
        """Write a small file. Without ``replace``, raise ``StorageError`` if it exists."""
        self.write_bytes(path, text.encode(), replace=replace)

    def write_bytes(self, path: str, content: bytes, *, replace: bool = True) -> None:
        """Write a file at once. Without ``replace``, raise ``StorageError`` if it exists."""
        with self._named(f"{path} cannot be written"):
            self._write(path, content, replace=replace)

    @abstractmethod
    def _write(self, path: str, content: bytes, *, replace: bool) -> None: ...

    def create_text(self, path: str, text: str) -> bool:
        """Create a small file, durably, and read it back; return whether it was created, and not by somebody else.

        A file that exists is never changed. One with the same content counts as created: the answer to an earlier try
        may have been lost.
        """
        problem: Exception | None = None
        try:
            self._create(path, text.encode())
        except self._errors as exc:  # also when the file exists; what the storage holds now decides
            problem = exc
        found = self.read_if_there(path)
        if found is None:
            raise StorageError(f"{path} cannot be created: {first_line(problem or Exception())}") from problem
        return found == text

    @abstractmethod
    def _create(self, path: str, content: bytes) -> None: ...

    def create_whole(self, path: str, content: bytes, *, aside: str) -> bool:
        """Create a file that nobody sees a part of, and return whether it was created: an existing one stays.

        :param aside: the file to write first, where a file can be seen before it is complete.
        """
        with self._named(f"{path} cannot be created"):
            return self._create_whole(path, content, aside)

    @abstractmethod
    def _create_whole(self, path: str, content: bytes, aside: str) -> bool: ...

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""
        with self._named(f"{path} cannot be deleted"):
            self._delete(path, recursive=False)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with everything in it, if it exists."""
        with self._named(f"{path} cannot be deleted"):
            self._delete(path, recursive=True)

    @abstractmethod
    def _delete(self, path: str, *, recursive: bool) -> None: ...

    @contextmanager
    def _named(self, problem: str) -> Iterator[None]:
        """Turn errors within a block into ``StorageError``."""
        try:
            yield
        except self._errors as exc:
            raise StorageError(f"{problem}: {first_line(exc)}") from exc
