"""JSON files of which only "not found" means that there are none; see ``durable_files``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.storage.durable_files import read_file
from airflow_kafka_groups.storage.layout import StoragePath, parse_json
from airflow_kafka_groups.storage.storage_access import raised_by, without_secrets


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
