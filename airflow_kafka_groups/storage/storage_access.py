"""What differs between disks and object stores, and what to do where a storage refuses."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.absence import code_of
from airflow_kafka_groups.storage.url_secrets import WORDS_OF_SECRETS

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
