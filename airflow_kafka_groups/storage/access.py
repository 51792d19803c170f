"""What differs between disks and object stores, and what to do where a storage refuses.

An object store's library calls a file absent after any 404, whoever answered it, so that is asked more closely.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.storage.url_secrets import WORDS_OF_SECRETS

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


if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

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
EXCLUSIVE_REMEDY = (
    "Use a storage with exclusive creation: a disk with hard links, or an object store with conditional writes "
    "(If-None-Match on S3). Without it, two runs can replace each other's backup and journal."
)
"""What to do where a storage replaces files, or cannot be asked not to."""
_WRONG_KEYS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHORT = r"(?:(?<=[?&#;])(?:key|pass)|(?<=[?&#])auth|(?<=&amp;)auth)"
"""Names that are secret in a URL only, where ``contracts.url_secrets`` finds them; an answer in XML has ``&amp;``."""
_NAMES = rf"(?:\b(?:sig|delegation|jwt)|{_SHORT}|{WORDS_OF_SECRETS}[\w-]{{0,99}})"
_GIVEN = rf"{_NAMES}(?:=|['\"]: ?)b?"
"""What precedes a value in quotes; also of a mapping, where one without quotes is a number, or ``None``."""
_SECRETS = re.compile(
    rf"({_GIVEN}')(?:[^'\\]|\\.)+|({_GIVEN}\")(?:[^\"\\]|\\.)+|({_NAMES}=)[^&\s'\"<>;,)]+"
    r"|(\bBearer |\bAuthorization['\"]?: ?b?['\"]?\w+ )[\w.~+/=-]+|(://[^/\s:@'\"]*:)[^/\s'\"]+(?=@)"
    r"|(-----BEGIN [\w ]*PRIVATE KEY-----).+?(?=-----END|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""Tokens in the URLs of requests, which libraries put into their errors: Azure's, those that are signed."""


def described(error: Exception) -> tuple[str, Exception | None]:
    """Return an error's class and text without secrets, and the error as a cause: ``None`` if it shows some.

    Airflow logs a failure with all its causes.
    """
    shown = f"{type(error).__name__}: {without_secrets(str(error))}"
    return shown, None if any(_SECRETS.search(str(one)) for one in _chain(error)) else error


def without_secrets(text: str) -> str:
    """Return the text of an error without the tokens in its URLs."""
    return _SECRETS.sub(lambda found: f"{found[found.lastindex or 0]}…", text)


def raised_by(error: BaseException) -> BaseException | None:
    """Return what the storage raised, also where it is left out as the cause because its text shows a secret.

    A path such as ``/data/token=a`` looks like one, and what is absent there is absent.
    """
    return error.__cause__ or error.__context__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = raised_by(error)


def remedy_of(error: Exception) -> str:
    """Return what to do about an error of the storage."""
    if isinstance(error, PermissionError):
        if code_of(error) in _WRONG_KEYS:  # of S3, whose library takes them for refused access
            return "Check the credentials in the storage's connection"
        return "Give this user access, or choose another storage_path"
    if isinstance(error, OSError) and error.errno in _FULL:
        return "Make room there, or choose another storage_path"
    return "Check storage_path and the storage's connection"


@contextmanager
def unless_warned(warning: str) -> Iterator[None]:
    """Log a warning for what cannot be read inside, and go on behind it.

    :param warning: the text, with ``%s`` for the error. Empty: the ``MaintenanceError`` is raised.
    """
    try:
        yield
    except MaintenanceError as error:
        if not warning:
            raise
        log.warning(warning, error)
