"""A storage as the jobs use it: local disks by Python, in threads and with Hadoop's checksums, or Hadoop's FileSystem.

Spark commits some files of another job that writes the same folder at the same time, so each job's files have names of
its own. Hadoop starts a process for each local file, for its permissions; Python reads and writes disks by itself. What
Hadoop keeps beside a file that it wrote, its checksums, goes with the file: Hadoop, and so Spark, would compare them
with whatever has that name later.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, ClassVar, TypeVar

from airflow_kafka_groups.exceptions import JobError, StorageError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage.arrow_values import release_unused
from airflow_kafka_groups.storage.local_files import create_local, read_local, unless_absent

T = TypeVar("T")
R = TypeVar("R")
_REMOTE = 16
CALLERS = 4
"""Callers at once, where each of them mostly waits."""

_MANY_GROUPS = 50_000
"""Beyond, the lives and verdicts of a cluster's groups take hundreds of megabytes, and the processor's time."""


class Workers(AbstractContextManager["Workers"]):
    """Threads, until the end of the block.

    :param cores: how many of this machine's to use, and not one more. Default: all.
    :param is_local: whether the files are on a local disk.
    :param callers: how many calls of ``side_by_side`` run at once. They share the threads, and what is kept.
    """

    def __init__(self, cores: int | None = None, *, is_local: bool, callers: int = 1) -> None:
        there = os.cpu_count() or 1
        cores = min(cores or there, there)
        threads = cores if is_local else max(cores, _REMOTE)
        self._ahead = 2 * threads // callers
        self._callers_help = is_local
        others = threads - 1 if is_local else threads
        self._pool = ThreadPoolExecutor(others, thread_name_prefix="observations") if others else None
        self._callers = ThreadPoolExecutor(callers, thread_name_prefix="callers")
        self._several, self._alone = callers > 1, Lock()

    def __exit__(self, *_: Any) -> None:
        if self._pool:
            # First: after an interrupt, callers end at their next call of each().
            self._pool.shutdown(cancel_futures=True)
        self._callers.shutdown(cancel_futures=True)

    def side_by_side(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Return what a function that calls ``each`` returns for each item, in order.

        With one caller, it is called by this thread, for each item when its result is asked for.
        """
        return self._callers.map(work, items) if self._several else map(work, items)

    @contextmanager
    def alone(self, groups: int) -> Iterator[None]:
        """Let callers with many groups wait for one another: only one of them is in memory at a time."""
        if groups <= _MANY_GROUPS:
            yield
            return
        with self._alone:
            release_unused()  # each thread keeps what it has freed, as that of the one before
            yield

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Return what a function returns for each item, in order, and compute the next ones meanwhile.

        No more results are kept than twice the number of threads, by all callers together. After an error, nothing of
        it runs any more. On a local disk, the caller computes, too, instead of waiting for a result.
        """
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                waiting.append((item, self._pool.submit(work, item) if self._pool else Future()))
                if len(waiting) >= self._ahead:
                    yield self._first(work, waiting)
            while waiting:
                yield self._first(work, waiting)
        finally:
            wait([done for _, done in waiting if not done.cancel()])

    def _first(self, work: Callable[[T], R], waiting: deque[tuple[T, Future[R]]]) -> tuple[T, R]:
        """Remove the first of the items from those that wait, and return it with its result."""
        while self._callers_help and not waiting[0][1].done():
            place = next((place for place, (_, done) in enumerate(waiting) if done.cancel()), None)
            if place is None:  # threads compute all of them
                break
            item, result = waiting[place][0], Future[R]()
            waiting[place] = item, result
            try:
                result.set_result(work(item))
            except Exception as exc:  # noqa: BLE001 - raised when it is this item's turn
                result.set_exception(exc)
        item, done = waiting.popleft()
        return item, done.result()


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
                return self._footer(path)[0] <= {*columns}
        except StorageError:
            return False

    def count_rows(self, paths: Iterable[str]) -> int:
        """Count the rows of Parquet files, from their footers."""
        rows = 0
        for path in paths:
            with self._named(f"{path} cannot be read"):
                rows += self._footer(path)[1]
        return rows

    @abstractmethod
    def _footer(self, path: str) -> tuple[set[str], int]:
        """Return the names of a Parquet file's columns, and the number of its rows."""

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


_HEADER = Struct(">4sI")
"""What such a file begins with: ``crc``, a zero, and the number of bytes of a part."""

_SUM = Struct(">I")


def checksum_of(path: Path) -> Path:
    """Return the path of the checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def check(content: bytes, checksums: bytes) -> None:
    """Raise ``OSError`` unless a file's content is what its checksums were made of."""
    begins, size = _HEADER.unpack_from(checksums) if len(checksums) >= _HEADER.size else (b"", 0)
    if begins != b"crc\0":
        return  # Hadoop does not compare with what is no file of checksums either
    view, parts = memoryview(content), range(0, len(content), size or 1)
    sums = memoryview(checksums)[_HEADER.size :]
    # Their number first: of a damaged size, there may have to be one for each byte.
    if len(sums) != len(parts) * _SUM.size or any(
        zlib.crc32(view[at : at + size]) != found for at, (found,) in zip(parts, _SUM.iter_unpack(sums), strict=True)
    ):
        raise OSError("Checksum error: it is not what Hadoop wrote, and has a checksum of, beside it")


def footer_of(source: Any) -> tuple[set[str], int]:
    """Return the names of a Parquet file's columns, and the number of its rows."""
    import pyarrow.parquet as pq  # not every job needs it

    footer = pq.read_metadata(source)
    return {*footer.schema.to_arrow_schema().names}, footer.num_rows


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder):
        if entry.is_file() and not (entry.name.startswith(".") and entry.name.endswith(".crc")):
            yield entry


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it does not exist, and a file itself, as Hadoop does.

    To ask an entry what it is raises its errors; a ``Path`` takes some for "it is not there", and from Python 3.14 all.
    """

    def look() -> list[os.DirEntry[str]]:
        with os.scandir(folder) as found:
            return list(found)

    try:
        return unless_absent(folder, look)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return [entry for entry in _entries(folder.parent) if entry.name == folder.name]


class LocalStorage(Storage):
    """A local disk.

    :param folder: where relative paths begin: the JVM's folder if there is one, wherever Python is by now. Default:
        this process's.
    """

    is_local: ClassVar[bool] = True

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path.cwd()

    def local(self, path: str) -> Path:
        """Return the path of a file as Hadoop understands it: ``..`` leads back through no link."""
        below = path.removeprefix(_scheme(path))
        if below.startswith("//"):
            host, _, below = below[2:].partition("/")
            if host:
                raise OSError(f"it is on a machine, {host}: write file:///… for this one")
            below = f"/{below.lstrip('/')}"
        return Path(os.path.normpath(self._folder / Path(below)))

    def direct(self, path: str) -> Path | None:
        """Return the path of a file of which Hadoop has no checksums to compare."""
        with self._named(f"{path} cannot be read"):
            here = self.local(path)
            return None if checksum_of(here).is_file() else here

    def _parent(self, path: str) -> str | None:
        here = self.local(path)
        return None if here.parent == here else f"{_scheme(path)}{here.parent}"

    def _folders(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in _entries(self.local(folder)) if entry.is_dir())

    def _files(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in _files(self.local(folder)))

    def _files_below(self, folder: str) -> dict[tuple[str, str], int]:
        here, sizes = self.local(folder), {}
        for inner in (here, *(Path(entry.path) for entry in _entries(here) if entry.is_dir())):
            for entry in _files(inner):
                with suppress(FileNotFoundError):  # another program has deleted it by now
                    sizes[inner.name, entry.name] = entry.stat().st_size
        return sizes

    def _read(self, path: str) -> bytes:
        here = self.local(path)
        content, beside = unless_absent(here, lambda: read_local(here)), checksum_of(here)
        if beside.is_file():
            check(content, beside.read_bytes())
        return content

    def _footer(self, path: str) -> tuple[set[str], int]:
        import pyarrow as pa  # not every job needs it

        try:
            return footer_of(self.local(path))
        except pa.ArrowException as exc:
            raise OSError(first_line(exc)) from exc

    def _exists(self, path: str) -> bool:
        here = self.local(path)
        with suppress(FileNotFoundError, NotADirectoryError):
            unless_absent(here, here.stat)
            return True
        return False

    def _written_at(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.local(path).stat().st_mtime, UTC)

    def _write(self, path: str, content: bytes, *, replace: bool) -> None:
        here = self.local(path)
        here.parent.mkdir(parents=True, exist_ok=True)
        with here.open("wb" if replace else "xb") as file:
            checksum_of(here).unlink(missing_ok=True)
            file.write(content)

    def _create(self, path: str, content: bytes) -> None:
        create_local(self.local(path), content)

    def _create_whole(self, path: str, content: bytes, aside: str) -> bool:
        self._write(aside, content, replace=True)
        here = self.local(path)
        here.parent.mkdir(parents=True, exist_ok=True)
        if here.exists():
            return False
        checksum_of(here).unlink(missing_ok=True)
        return shutil.move(self.local(aside), here) == here  # a link may lead to another disk

    def _delete(self, path: str, *, recursive: bool) -> None:
        here = self.local(path)
        if here.is_symlink() or not here.is_dir():  # of a link, what it leads to stays
            checksum_of(here).unlink(missing_ok=True)
            here.unlink(missing_ok=True)
        elif not recursive:
            here.rmdir()
        while recursive and self._exists(path):
            with suppress(FileNotFoundError):  # another job removes it, too
                shutil.rmtree(here)


def _scheme(path: str) -> str:
    """Return what a path has before its first slash if it is that of local disks, in letters of whatever size."""
    return path[:5] if path[:5].lower() == "file:" else ""


_OF_A_JOB = re.compile(r"part-\d{15}-")
"""How the names of a job's files begin: with 15 digits of its own. Spark's are those of a task, and shorter."""


class JobFiles:
    """The files of one write. A committer with file names of its own names nobody."""

    def __init__(self) -> None:
        self.prefix = f"part-{secrets.randbelow(10**15):015}"
        """How their names begin."""

    def name(self, number: int) -> str:
        """Return the name of a file that the job writes by itself."""
        return f"{self.prefix}-{number:05}.parquet"

    def require_own(self, output: str, files: Iterable[str], did: str) -> None:
        """Raise ``JobError`` if there are files of another job.

        :param files: the paths of the files below the output.
        :param did: what the other job did, for the message.
        """
        for path in files:
            name = path.rpartition("/")[2]
            if _OF_A_JOB.match(name) and not name.startswith(f"{self.prefix}-"):
                raise JobError(f"{output} has {path} of another job, which {did} at the same time. Run it again")
