"""Files in S3, Google Cloud Storage and Azure, through Airflow's ``ObjectStoragePath`` and fsspec.

fsspec's ``exists()`` answers False on any error, so it is asked nowhere here. Its libraries call a file absent after
any 404, whoever answered it: a proxy that has lost its server answers everything so. That is asked more closely.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.access import code_of

S3 = frozenset({"s3", "s3a"})
GCS = frozenset({"gs", "gcs"})
AZURE = frozenset({"abfs", "abfss", "az"})
OBJECT_STORES = S3 | GCS | AZURE
"""The schemes of the object stores in which files are kept: their libraries create a file exclusively."""
SUPPORTED = (
    "is on no supported storage: use a local disk or NFS (/data/groups), S3 (s3://), Google Cloud Storage (gs://) or "
    "Azure (abfs://, abfss://); SFTP, WebDAV, SMB and HDFS are not supported"
)
"""The end of the message about a path on another storage."""

_EXISTS = frozenset({"PreconditionFailed", "412"})
"""Codes of S3 where the condition of a creation does not hold. s3fs knows them by what AWS adds, and others do not."""
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""Codes of S3 while another write of the same name is under way, such as an earlier try of this one: ask again."""
_CONFLICT_PAUSES = (0.1, 0.3, 0.9)
_NO_SUCH_RANGE = frozenset({"InvalidRange", "416"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})


class ObjectStore:
    """The files of any object store, by ``ObjectStoragePath``; see ``Backend``. An object appears complete."""

    def create(self, path: Any, data: bytes, *, durable: bool = True) -> None:
        """Create an object by the store's own condition (``If-None-Match``, ``ifGenerationMatch=0``)."""
        fs, protocols = path.fs, _protocols(path.fs)
        if not protocols & OBJECT_STORES:
            raise StorageError(f"{path} {SUPPORTED}")
        # A library that does not know ``mode`` drops it, and would replace what is there.
        put = getattr(fs, "_pipe_file", None) if protocols & S3 else None
        if put is not None and "mode" not in inspect.signature(put).parameters:
            raise StorageError(f"{path} cannot be created so that nothing is replaced: install s3fs 2024.12 or newer")
        for pause in (*_CONFLICT_PAUSES, None):
            try:
                fs.pipe_file(_key(path), data, mode="create")
                return
            except OSError as exc:
                code = code_of(exc)
                if code in _EXISTS:
                    raise FileExistsError(str(exc)) from exc
                if pause is None or code not in _CONFLICTS:
                    raise
            time.sleep(pause)

    def read(self, path: Any, start: int | None, end: int | None) -> bytes:
        fs, key = path.fs, _key(path)
        with _absence(fs, key):
            try:
                if start is not None and end is not None:
                    return bytes(fs.cat_file(key, start=start, end=end))  # the second of s3fs is a version
                # s3fs looks for the size in its listing cache first: a newer file would be "not found".
                fs.invalidate_cache(key)
                if not _protocols(fs) & S3:
                    return bytes(fs.cat_file(key))
                # Of a complete file, s3fs asks for the size first, and the answer to that cannot say what is missing.
                return bytes(fs.cat_file(key, start=0))
            except OSError as exc:
                if code_of(exc) in _NO_SUCH_RANGE:  # there is no first byte
                    return b""
                raise

    def replace(self, path: Any, parts: Iterable[bytes]) -> bool:
        data = b"".join(parts)
        path.fs.pipe_file(_key(path), data)
        return self.read(path, None, None) == data

    def list(self, folder: Any) -> dict[str, set[bool]]:
        fs, own = folder.fs, _key(folder).rstrip("/")
        with _absence(fs, f"{own}/"):
            fs.invalidate_cache(_key(folder))
            entries = list(fs.ls(_key(folder), detail=True))
            if _protocols(fs) & AZURE and any((each["name"], each["type"]) == (own, "file") for each in entries):
                raise StorageError(f"{folder} cannot be listed, for a file is called so: remove that file")
        found = dict[str, set[bool]]()
        for path, kind in sorted((str(entry["name"]), str(entry["type"])) for entry in entries):
            if (name := path.rstrip("/")) != own:
                is_folder = kind == "directory" or path.endswith("/")
                found.setdefault(name.rpartition("/")[2], set()).add(is_folder)
        return found

    def sizes_below(self, folder: Any) -> dict[tuple[str, str], int]:
        fs, own = folder.fs, _key(folder).rstrip("/")
        fs.invalidate_cache(own)
        with _absence(fs, f"{own}/"):
            found = [each for each in fs.find(own, detail=True).values() if each["type"] != "directory"]
        sizes = {str(each["name"]): int(each["size"] or 0) for each in found}
        parts = {tuple(name.split("/")[-2:]): size for name, size in sizes.items() if name.startswith(f"{own}/")}
        return {(inner, name): size for (inner, name), size in parts.items() if name}

    def is_file(self, path: Any) -> bool:
        """Return whether there is an object. On Azure, a folder may be read as an empty file."""
        try:
            if _protocols(path.fs) & AZURE:
                return False in self._found(path.parent).get(path.name, ())
            self.read(path, 0, 1)
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: Any) -> bool:
        return bool(self._found(path))

    def _found(self, folder: Any) -> dict[str, set[bool]]:
        with suppress(FileNotFoundError):
            return self.list(folder)
        return {}

    def describe(self, path: Any) -> tuple[int, datetime]:
        path.fs.invalidate_cache(_key(path))
        changed: datetime = path.fs.modified(_key(path))
        return int(path.fs.size(_key(path))), changed.astimezone(UTC)

    def remove(self, path: Any) -> None:
        """Remove an object. Not by ``unlink``: s3fs then removes several at once, and looks at no answer."""
        with _absence(path.fs, _key(path)):
            path.fs.rm_file(_key(path))

    def remove_folder(self, folder: Any, *, everything: bool) -> None:
        """Remove what stands for a folder, and never an object with its name: that is somebody else's.

        Hadoop and consoles keep an empty object for a folder. On Azure it has no slash in its name, and stands for a
        real folder where the account has a hierarchical namespace.
        """
        for name, kinds in self._found(folder).items() if everything else ():
            if True in kinds:
                self.remove_folder(folder / name, everything=True)
            if False in kinds:
                with suppress(FileNotFoundError):
                    self.remove(folder / name)
        fs, key = folder.fs, _key(folder).rstrip("/")
        with suppress(FileNotFoundError):
            if not _protocols(fs) & AZURE:  # not by ``rmdir``, which removes all that is in it
                fs.rm_file(f"{key}/")
                return
            fs.invalidate_cache(key.rpartition("/")[0])
            if fs.info(key)["type"] == "directory":  # a hierarchical namespace refuses to remove one with files in it
                fs.rm_file(key)

    def sync(self, path: Any) -> None:
        """Return at once: what a store has accepted is durable."""


OBJECTS = ObjectStore()


def _key(path: Any) -> str:
    return str(path.path)


def _protocols(fs: Any) -> set[str]:
    return {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}


@contextmanager
def _absence(fs: Any, key: str) -> Iterator[None]:
    """Raise ``StorageError`` instead of ``FileNotFoundError`` when it is not known that a file or folder is absent.

    There is no bucket at all, or the store did not say what is missing.

    :param key: what may be absent; that of a folder ends with a slash.
    """
    try:
        yield
    except FileNotFoundError as exc:
        if code_of(exc) in _NO_BUCKET:
            raise StorageError(f"{exc}: check the name of the bucket") from exc
        if code_of(exc) == "404":
            raise StorageError(
                f"{exc}: the answer 404 does not say what is missing, as a store's would. Check the endpoint and its "
                "proxy"
            ) from exc
        if _protocols(fs) & GCS:
            _require_bucket_of_gcs(exc, fs, key)
        raise


def _require_bucket_of_gcs(exc: FileNotFoundError, fs: Any, key: str) -> None:
    """Raise unless Google's store itself lists the bucket, without the name: gcsfs drops what a 404 says."""
    bucket, _, name = key.lstrip("/").partition("/")
    try:
        listed = fs.call("GET", "b/{}/o", bucket, prefix=name, maxResults=1, json_out=True)
    except FileNotFoundError as error:
        raise StorageError(f"{exc}: check the name of the bucket, the endpoint and its proxy") from error
    if any(name.endswith("/") or item["name"] == name for item in listed.get("items", ())):
        raise StorageError(f"{exc}: it was said to be absent, and is listed. Check the endpoint and its proxy")
