"""Files that are created once, survive a power cut, and whose absence is never guessed.

Decisions about deletions rest on these files (journal, approvals, backups), so three things hold that ``pathlib`` and
fsspec do not promise by themselves:

- ``create_file`` is exclusive: of two writers exactly one succeeds. On a disk by a hard link, on object
  stores by their own condition (``If-None-Match`` on S3 and Azure, ``ifGenerationMatch=0`` on GCS).
- What was created on a disk is durable when the call returns: the file and its folder are fsynced.
- Only "not found" means absent. fsspec's ``exists()`` answers False on any error, so it is asked nowhere here; every
  other error of a storage, whatever its class, is a ``StorageError``. So is a 404 that does not say what is missing: a
  proxy that has lost its server answers everything so.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, MaintenanceError, StorageError
from airflow_kafka_groups.storage.access import (
    AZURE,
    OBJECT_STORES,
    S3,
    SUPPORTED,
    code_of,
    listed_by_azure,
    protocols_of,
    raised_by,
    require_absence,
    without_secrets,
)
from airflow_kafka_groups.storage.layout import StoragePath, parse_json, storage_errors
from airflow_kafka_groups.storage.local_files import create_local, read_local, sync_folder, unless_absent
from airflow_kafka_groups.storage.paths import is_cluster_name, is_id


@contextmanager
def unless_damaged(error: type[MaintenanceError], what: str) -> Iterator[None]:
    """Raise an error for content that is not as this package writes it, whatever reading it raises.

    :param error: the error to raise.
    :param what: what is damaged, as the subject of a sentence.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise error(f"{what} is damaged: {type(exc).__name__}: {exc}") from exc


def elsewhere(cluster: object, here: str) -> str:
    """Return the end of an error about a file that belongs elsewhere: what was done to it, and the remedy.

    :param cluster: the cluster that the file names.
    :param here: the cluster in whose folder it is.
    """
    if cluster == here or not is_cluster_name(cluster):
        return "it was copied or changed. Restore the file that belongs there"
    return f"it was copied or renamed. Move it back to the folder {cluster!r}, and pass cluster={cluster!r}"


_EXISTS = frozenset({"PreconditionFailed", "412"})
"""Codes of S3 where the condition of a creation does not hold. s3fs knows them by what AWS adds, and others do not."""
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""Codes of S3 while another write of the same name is under way, such as an earlier try of this one: ask again."""
_CONFLICT_PAUSES = (0.1, 0.3, 0.9)
_NO_SUCH_RANGE = frozenset({"InvalidRange", "416"})


def create_file(path: StoragePath, data: bytes) -> None:
    """Create a file with this content, durably, and read it back.

    A file that exists with the same content counts as created: the answer to an earlier try may have been lost.

    Raises ``FileExistsAlreadyError`` when it exists with other content, and ``StorageError`` when the storage fails or
    returns other bytes than were written.
    """
    local = local_path(path)
    with storage_errors("created", path):
        try:
            create_local(local, data) if local is not None else _create_object(path, data)
        except FileExistsError as exc:
            there = read_file(path)
            if there == data:
                sync_file(path)  # whoever wrote it may not have come to that
                return
            if there is None:
                raise StorageError(
                    f"{path} could not be created: the storage says that it exists, and does not have it ({exc})"
                ) from exc
            raise FileExistsAlreadyError(f"{path} exists with other content; it is never overwritten") from None
    if read_file(path) != data:
        raise StorageError(f"{path} does not hold what was written to it: check the storage, then run again")


def is_exclusive(probe: StoragePath) -> bool:
    """Return whether the storage refuses to create a file that exists, as it was asked to, and does not replace it.

    :param probe: a file for this question only. It is created if it does not exist, and stays.

    Raises ``StorageError``.
    """
    try:
        create_file(probe, b"one")  # refused at once if the file has what a storage left that has been mended since
        create_file(probe, b"two")
    except FileExistsAlreadyError:
        return True
    return False


def read_file(path: StoragePath, start: int | None = None, end: int | None = None) -> bytes | None:
    """Return the content of a file, ``None`` only if the storage says that there is no such file.

    :param start: where to begin, and ``end`` where to end. Default: all of it.

    Raises ``StorageError`` for every other error.
    """
    local, size = local_path(path), None if start is None or end is None else end - start
    with storage_errors("read", path):
        try:
            if local is not None:
                data = unless_absent(local, lambda: read_local(local, start or 0, size))
            else:
                data = _read_object(path, start, end)
        except FileNotFoundError as exc:
            if local is None:
                require_absence(exc, _fs(path), _key(path))
            return None
    return bytes(data)


def list_ids(folder: StoragePath) -> list[str]:
    """Return the ids that JSON files in a folder are named by, oldest first; see ``list_names``."""
    stems = (name.removesuffix(".json") for name in list_names(folder) if name.endswith(".json"))
    return list(filter(is_id, stems))


def list_names(folder: StoragePath) -> list[str]:
    """Return the sorted names in a folder, an empty list if the storage says that there is no such folder.

    An object store may list late: a name that is missing here may exist. Raises ``StorageError``.
    """
    local = local_path(folder)
    if local is None:
        return sorted(_listed(folder))
    with storage_errors("listed", folder), suppress(FileNotFoundError):
        return unless_absent(local, lambda: sorted(entry.name for entry in local.iterdir()))
    return []


def list_kinds(folder: StoragePath) -> dict[str, set[bool]]:
    """Return the names in a folder, each with whether it is a folder: in an object store it can be both.

    Raises ``StorageError``.
    """
    local = local_path(folder)
    if local is None:
        return _listed(folder)
    with storage_errors("listed", folder), suppress(FileNotFoundError):
        return unless_absent(local, lambda: {entry.name: {entry.is_dir()} for entry in sorted(local.iterdir())})
    return {}


def _listed(folder: StoragePath) -> dict[str, set[bool]]:
    with storage_errors("listed", folder):
        try:
            _fs(folder).invalidate_cache(_key(folder))
            entries = list(_fs(folder).ls(_key(folder), detail=True))
            if _protocols(folder) & AZURE and entries and entries[0]["name"] == _key(folder).rstrip("/"):
                entries = listed_by_azure(_fs(folder), _key(folder).rstrip("/"))
        except FileNotFoundError as exc:
            require_absence(exc, _fs(folder), f"{_key(folder).rstrip('/')}/")
            return {}
    own, found = _key(folder).rstrip("/"), dict[str, set[bool]]()
    for path, kind in sorted((str(entry["name"]), str(entry["type"])) for entry in entries):
        if (name := path.rstrip("/")) != own:
            is_folder = kind == "directory" or path.endswith("/")
            found.setdefault(name.rpartition("/")[2], set()).add(is_folder)
    return found


def sync_file(path: StoragePath) -> None:
    """Make a local file and its name durable; object stores do this themselves. Raises ``StorageError``."""
    local = local_path(path)
    if local is None:
        return
    with storage_errors("made durable", path):
        with local.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(local.parent)


def remove_file(path: StoragePath) -> None:
    """Remove a file; one that is gone counts as removed. Raises ``StorageError``."""
    local = local_path(path)
    with storage_errors("removed", path):
        try:
            # Not by ``unlink``: s3fs then removes several objects at once, and looks at no answer.
            local.unlink() if local is not None else _fs(path).rm_file(_key(path))
        except FileNotFoundError as exc:
            if local is None:
                require_absence(exc, _fs(path), _key(path))


def remove_folder(folder: StoragePath) -> None:
    """Remove a folder whose files were removed. Raises ``StorageError``, and leaves what somebody else put into it.

    An object store has no folders, except for the empty object that Hadoop and consoles keep for one. On Azure it has
    no slash in its name, and stands for a real folder where the account has a hierarchical namespace.
    """
    local = local_path(folder)
    with storage_errors("removed", folder), suppress(FileNotFoundError):
        if local is not None:
            local.rmdir()
        elif not _protocols(folder) & AZURE:  # not by ``rmdir``, which removes all that is in it
            _fs(folder).rm_file(f"{_key(folder).rstrip('/')}/")
        else:
            _remove_marker(_fs(folder), _key(folder).rstrip("/"))


def _remove_marker(fs: Any, key: str) -> None:
    fs.invalidate_cache(key.rpartition("/")[0])
    if fs.info(key)["type"] == "directory":  # a hierarchical namespace refuses to remove one with files in it
        fs.rm_file(key)


def _create_object(path: StoragePath, data: bytes) -> None:
    if not _protocols(path) & OBJECT_STORES:
        raise StorageError(f"{path} {SUPPORTED}")
    if _protocols(path) & S3:
        _require_condition(path)
    for pause in (*_CONFLICT_PAUSES, None):
        try:
            _fs(path).pipe_file(_key(path), data, mode="create")
            return
        except OSError as exc:
            code = code_of(exc)
            if code in _EXISTS:
                raise FileExistsError(str(exc)) from exc
            if pause is None or code not in _CONFLICTS:
                raise
        time.sleep(pause)


def _require_condition(path: StoragePath) -> None:
    """Raise where s3fs does not know ``mode``: it drops what it does not know, and would replace what is there."""
    put = getattr(_fs(path), "_pipe_file", None)
    if put is not None and "mode" not in inspect.signature(put).parameters:
        raise StorageError(f"{path} cannot be created so that nothing is replaced: install s3fs 2024.12 or newer")


def _read_object(path: StoragePath, start: int | None, end: int | None) -> bytes:
    try:
        if start is not None and end is not None:
            return bytes(_fs(path).cat_file(_key(path), start=start, end=end))  # the second of s3fs is a version
        # s3fs looks for the size in its listing cache first: a file newer than the listing would be "not found".
        _fs(path).invalidate_cache(_key(path))
        if not _protocols(path) & S3:
            return bytes(_fs(path).cat_file(_key(path)))
        # Of a complete file, s3fs asks for the size first, and the answer to that cannot say what is missing.
        return bytes(_fs(path).cat_file(_key(path), start=0))
    except OSError as exc:
        if code_of(exc) in _NO_SUCH_RANGE:  # there is no first byte
            return b""
        raise


def require_writable(folder: StoragePath) -> None:
    """Raise ``StorageError`` if files cannot be created in a folder on a disk, or one that is yet to be made.

    Nothing is written. A call asks this before work that would be lost. What object stores allow only a write shows.
    """
    local = local_path(folder)
    if local is None:
        return
    with storage_errors("examined", folder):
        existing = next(path for path in (local, *local.parents) if path.exists())
        if not existing.is_dir():
            raise StorageError(f"{folder} cannot be written: {existing} is not a folder; choose another storage path")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise StorageError(
                f"{folder} cannot be written: this user may create nothing in {existing}; give it write access, or "
                "choose another storage path"
            )


def local_path(path: StoragePath) -> Path | None:
    """Return the path on a local disk, ``None`` for an object store."""
    return path if isinstance(path, Path) else None


def _protocols(path: StoragePath) -> set[str]:
    return protocols_of(_fs(path))


def _fs(path: StoragePath) -> Any:
    return path.fs  # type: ignore[attr-defined]  # an ObjectStoragePath's


def _key(path: StoragePath) -> str:
    return str(path.path)  # type: ignore[attr-defined]


def read_json(
    path: StoragePath,
    what: str,
    error: type[MaintenanceError],
    *,
    has_format: bool = True,
    part: Callable[[bytes], bytes] = bytes,
    read: Callable[[StoragePath], bytes | None] | None = None,
) -> dict[str, Any]:
    """Read a JSON object.

    :param what: the kind of file for messages, e.g. ``"the plan"``.
    :param error: raised if the file is missing, incomplete, of a newer format or not a JSON object.
    :param has_format: whether the file has the field ``format``, and another version is refused. Default true.
    :param part: returns what to parse of the file's content. Default: all of it.
    :param read: reads what ``part`` needs of the file. Default: ``read_file``, all of it.

    Raises ``StorageError`` where the storage fails: the file may be there, and a later try may read it.
    """
    try:
        data = (read or read_file)(path)
    except StorageError as exc:
        if isinstance(cause := raised_by(exc), IsADirectoryError):
            raise error(f"{what} cannot be read from {path}: {without_secrets(str(cause))}") from exc
        raise
    if data is None:
        raise error(f"{what} is missing: there is no {path}")
    return parse_json(part(data), path, what, error, has_format=has_format)


def is_there(path: StoragePath) -> bool:
    """Return whether there is a small file. Not by ``exists``: of many storages, that is false after any error, too.

    Raises ``StorageError``.
    """
    try:
        return read_file(path) is not None
    except StorageError as exc:
        if isinstance(raised_by(exc), IsADirectoryError):  # whoever reads it says what is wrong
            return True
        raise


T = TypeVar("T")


READERS = 8


_AT_ONCE = 2 * READERS


def read_all(function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """Call a function for many arguments, several at once: an object store takes its time for each."""
    if len(arguments[0]) < READERS:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, *arguments))


def read_few(function: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """Call a function for many arguments, as ``read_all``; but few of its results are there at once."""
    for start in range(0, len(arguments[0]), _AT_ONCE):
        yield from read_all(function, *(some[start : start + _AT_ONCE] for some in arguments))
