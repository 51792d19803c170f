"""Storages of fsspec with folders, such as SFTP, SMB and HDFS, whose libraries do not create a file exclusively.

fsspec itself looks for a file before it creates one: two writers both find none, and each error counts as none. sshfs,
by which Airflow reaches SFTP, drops the condition. There, a file is opened so that the server refuses one that exists.
Such a file is there when it is open. Where it is not, as of webdav4, the library has only looked, too.

A file that is opened is there before it is complete. On SFTP, it is completed under another name and gets its own by a
hard link, as on a disk, where the server makes them. Not by renaming it: many servers look for the new name and rename
in two steps, so that of two writers both succeed.
"""

from __future__ import annotations

import errno
import inspect
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from airflow_kafka_groups.exceptions import StorageError

EXCLUSIVE_REMEDY = (
    "Use a storage with exclusive creation: a disk with hard links, SFTP, or an object store with conditional writes "
    "(If-None-Match on S3). Without it, two runs can replace each other's backup and journal."
)
"""What to do where a storage replaces files, or cannot be asked not to."""
_LINK, _RENAME = "link", "posix_rename"
"""Methods of the channels of sshfs, which has none for links itself, and copies where it cannot rename."""


def knows_condition(fs: Any) -> bool:
    """Return whether a file system, or the one in it, as in fsspec's of a folder, creates exclusively by itself."""
    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

    while isinstance(inner := getattr(fs, "fs", None), AbstractFileSystem):
        fs = inner
    put = _own(fs, "pipe_file")
    return getattr(put, "__func__", put) is not AbstractFileSystem.pipe_file and _takes(put, "mode")


def create_where_absent(fs: Any, key: str, data: bytes) -> None:
    """Create a file by a hard link, or by opening it exclusively.

    Raises ``FileExistsError``, ``StorageError`` where the library can do neither, and what it raises.
    """
    if _write_aside(fs, key, data, _LINK):
        return
    try:
        file = fs.open(key, "xwb" if _is_paramikos(fs) else "xb")
    except (NotImplementedError, ValueError) as exc:
        raise StorageError(f"{key} cannot be created so that nothing is replaced: {exc}. {EXCLUSIVE_REMEDY}") from exc
    except Exception as exc:
        if _is_there(fs, key):  # SFTP has no code for it: servers answer just "failure"
            raise FileExistsError(str(exc)) from exc
        raise
    at_once = _is_at_once(fs, key, file)
    try:
        if at_once:
            with file:
                file.write(data)
    except FileExistsError:  # what is there is another's: the library looked again before it wrote
        raise
    except BaseException:
        with suppress(Exception):  # a part of it would count as there for good
            fs.rm_file(key)
        raise
    if not at_once:
        _discard(file)
        raise StorageError(
            f"{key} cannot be created so that nothing is replaced: its library looks for a file first, and writes it "
            f"later. {EXCLUSIVE_REMEDY}"
        )


def replace_whole(path: Any, data: bytes) -> bool:
    """Write a file so that it has all of its new content or what it had; return whether that was possible.

    Raises what the library raises where the content cannot be written.
    """
    return _write_aside(getattr(path, "fs", None), str(getattr(path, "path", path)), data, _RENAME)


def _write_aside(fs: Any, key: str, data: bytes, naming: str) -> bool:
    """Write a file of sshfs under another name, and let it have its own by a request; return whether that was possible.

    What a killed process leaves has a name that nobody reads, and is pruned. Raises ``FileExistsError`` for a link, and
    what the library raises where the content cannot be written.

    :param naming: the request: ``_LINK`` or ``_RENAME``.
    """
    from fsspec.asyn import sync  # type: ignore[import-untyped]

    if (channels := getattr(fs, "_pool", None)) is None:
        return False
    name = key.rpartition("/")[2]
    part = f"{key.removesuffix(name)}.{name}.{secrets.token_hex(4)}.tmp"

    async def give_name() -> None:
        async with channels.get() as channel:
            await getattr(channel, naming)(part, key)

    try:
        file = fs.open(part, "xb")
    except Exception:  # noqa: BLE001 - the server allows no such names, or says what is wrong once more
        return False
    try:
        with file:
            file.write(data)
        try:
            sync(fs.loop, give_name)
        except Exception as exc:
            if naming == _LINK and _is_there(fs, key):
                raise FileExistsError(str(exc)) from exc
            return False  # the server does not do that
    finally:
        with suppress(Exception):
            fs.rm_file(part)
    return True


@contextmanager
def _errors_of_smb() -> Iterator[None]:
    """Raise Python's own errors, such as ``FileNotFoundError``, for smbprotocol's, which have their numbers only."""
    try:
        yield
    except OSError as exc:
        if exc.errno and hasattr(exc, "ntstatus"):  # of no other library: numbers of TLS and of names are others
            raise OSError(exc.errno, str(exc), exc.filename) from exc
        raise


@_errors_of_smb()
def list_folder(fs: Any, key: str) -> list[dict[str, Any]]:
    """Return the entries of a folder, as fsspec does."""
    return list(fs.ls(key, detail=True))


@_errors_of_smb()
def remove(fs: Any, key: str) -> None:
    """Remove a file."""
    fs.rm_file(key)


@_errors_of_smb()
def read_whole(fs: Any, key: str) -> bytes:
    """Read a file. Raises ``IsADirectoryError`` for a folder, also where the library's own error does not say so."""
    try:
        return bytes(fs.cat_file(key))
    except OSError:
        raise
    except Exception as exc:  # sshfs passes on what the server says, for which SFTP has no code
        if fs.isdir(key):
            raise IsADirectoryError(str(exc)) from exc
        raise


@_errors_of_smb()
def read_range(fs: Any, key: str, start: int, end: int) -> bytes:
    """Read a part of a file. By name: the second argument of s3fs is a version, and sshfs reads all of the file."""
    if _takes(_own(fs, "cat_file"), "start"):
        return bytes(fs.cat_file(key, start=start, end=end))
    with fs.open(key, "rb") as file:
        file.seek(start)
        return bytes(file.read(end - start))


def require_file(fs: Any, key: str) -> None:
    """Raise ``OSError`` for a folder, a device or a pipe of a store with folders, such as SFTP."""
    kind = fs.info(key)["type"]
    if kind == "directory":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), key)
    if kind not in ("file", "link"):
        raise OSError(errno.EINVAL, "it is a device or a pipe: name a regular file", key)


def remove_empty_folder(fs: Any, key: str) -> None:
    """Remove a folder in which nothing is. ``rmdir`` of sshfs is the one of fsspec that does nothing; it has another.

    Raises what the library raises.
    """
    from fsspec.asyn import sync
    from fsspec.spec import AbstractFileSystem

    if hasattr(fs, "_rmdir") and type(fs).rmdir is AbstractFileSystem.rmdir:
        sync(fs.loop, fs._rmdir, key)
    else:
        fs.rmdir(key)


def _is_paramikos(fs: Any) -> bool:
    """Return whether it is fsspec's own file system of SFTP: its library lets nobody write what is opened by ``xb``."""
    return "sftp" in fs.protocol and hasattr(fs, "ftp")


def _is_created(fs: Any, key: str) -> bool:
    """Return whether a file that was opened is there by that: otherwise it will replace what comes in between."""
    fs.invalidate_cache(fs._parent(key))
    try:
        fs.info(key)
    except FileNotFoundError:
        return False
    return True


def _is_at_once(fs: Any, key: str, file: Any) -> bool:
    """Return what ``_is_created`` does; where it raises, write nothing, and remove no file that may be another's."""
    try:
        return _is_created(fs, key)
    except BaseException:
        if _is_paramikos(fs) or hasattr(fs, "_pool"):  # a server of SFTP opened no other's, so this one is there, empty
            with suppress(Exception):
                file.close()
            with suppress(Exception):
                fs.rm_file(key)
        _discard(file)
        raise


def _discard(file: Any) -> None:
    """Let a file go that is not to be written: it would be written when it is collected."""
    with suppress(Exception):
        file.discard()
    with suppress(Exception):
        file.closed = True  # fsspec's own discards nothing


def _is_there(fs: Any, key: str) -> bool:
    with suppress(Exception):
        fs.info(key)
        return True
    return False


def _own(fs: Any, name: str) -> Any:
    """Return what a file system's method calls: of one that is asynchronous, that has the arguments."""
    return getattr(fs, f"_{name}", None) or getattr(fs, name)


def _takes(function: Any, argument: str) -> bool:
    return argument in inspect.signature(function).parameters
