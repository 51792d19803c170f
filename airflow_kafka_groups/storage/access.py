"""Errors of storages: what they show, without secrets, and what to do about them."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.storage.url_secrets import WORDS_OF_SECRETS


def code_of(exc: OSError) -> str | None:
    """Return the code of the store's own answer, ``None`` if there was none; the status where it has no code."""
    answer = getattr(exc.__cause__, "response", None)
    if isinstance(answer, Mapping):  # botocore's
        code = answer.get("Error", {}).get("Code")
    else:  # Azure's; that of a listing, adlfs leaves in the context
        error = exc.__cause__ or exc.__context__
        code = getattr(error, "error_code", None) or getattr(error, "status_code", None)
    return None if code is None else str(getattr(code, "value", code))


log = logging.getLogger(__name__)

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
def storage_errors(what: str, path: object) -> Iterator[None]:
    """Raise every error of the storage as ``StorageError``: botocore's and others are no ``OSError``.

    :param what: what could not be done with the path: ``"read"``, ``"written"``.
    """
    try:
        yield
    except MaintenanceError:
        raise
    except Exception as exc:  # noqa: BLE001 - the cause is left out where it shows a secret
        shown, cause = described(exc)
        raise StorageError(f"{path} could not be {what}: {shown}. {remedy_of(exc)}") from cause


def is_of_storage(error: Exception) -> bool:
    """Return whether an ``OSError`` from the reading of a Parquet file is the storage's own: another try may read it.

    For a file that is damaged, pyarrow raises a bare ``OSError`` without a number.
    """
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return False
    return isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)


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
