"""Whether an object store says that a file is absent: its library says so after any 404, whoever answered it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_groups.exceptions import StorageError

_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
_GCS = "gs"


def require_absence(exc: FileNotFoundError, fs: Any, key: str) -> None:
    """Raise ``StorageError`` when it is not known that a file or folder is absent.

    There is no bucket at all, or the store did not say what is missing.

    :param key: what the file system ``fs`` has not found; that of a folder ends with a slash.
    """
    if code_of(exc) in _NO_BUCKET:
        raise StorageError(f"{exc}: check the name of the bucket") from exc
    if code_of(exc) == "404":
        raise StorageError(
            f"{exc}: the answer 404 does not say what is missing, as a store's would. Check the endpoint and its proxy"
        ) from exc
    if _GCS in protocols_of(fs):
        _require_bucket_of_gcs(exc, fs, key)


def protocols_of(fs: Any) -> set[str]:
    """Return the names that a file system has in URLs."""
    return {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}


def code_of(exc: OSError) -> str | None:
    """Return the code of the store's own answer, ``None`` if there was none; the status where it has no code."""
    answer = getattr(exc.__cause__, "response", None)
    if isinstance(answer, Mapping):  # botocore's
        code = answer.get("Error", {}).get("Code")
    else:  # Azure's; that of a listing, adlfs leaves in the context
        error = exc.__cause__ or exc.__context__
        code = getattr(error, "error_code", None) or getattr(error, "status_code", None)
    return None if code is None else str(getattr(code, "value", code))


def listed_by_azure(fs: Any, key: str) -> list[dict[str, str]]:
    """Return the entries of a folder that is called like a file: adlfs then lists the file, and nothing that is below.

    :param key: the folder in the file system ``fs``, without a slash at its end.
    """
    from fsspec.asyn import sync  # type: ignore[import-untyped]

    container, _, name = key.partition("/")

    async def listed() -> list[str]:
        async with fs.service_client.get_container_client(container) as client:
            return [blob.name async for blob in client.walk_blobs(name_starts_with=f"{name}/", delimiter="/")]

    names = sync(fs.loop, listed)
    return [{"name": f"{container}/{each}", "type": "directory" if each.endswith("/") else "file"} for each in names]


def _require_bucket_of_gcs(exc: FileNotFoundError, fs: Any, key: str) -> None:
    """Raise unless Google's store itself lists the bucket, without the name: gcsfs drops what a 404 says."""
    bucket, _, name = key.lstrip("/").partition("/")
    try:
        listed = fs.call("GET", "b/{}/o", bucket, prefix=name, maxResults=1, json_out=True)
    except FileNotFoundError as error:
        raise StorageError(f"{exc}: check the name of the bucket, the endpoint and its proxy") from error
    if any(name.endswith("/") or item["name"] == name for item in listed.get("items", ())):
        raise StorageError(f"{exc}: it was said to be absent, and is listed. Check the endpoint and its proxy")
