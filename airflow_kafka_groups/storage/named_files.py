"""Files that users name: a policy and what lies beside it, a run's record, a job's result, a report."""

from __future__ import annotations

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.durable_files import read_file
from airflow_kafka_groups.storage.layout import StoragePath


def read_named(path: StoragePath, what: str, most: int, error: type[MaintenanceError]) -> bytes | None:
    """Read a file that a user named, ``None`` only if there is none. Anything but a regular file is ``StorageError``.

    :param what: the kind of file for messages, e.g. ``"the policy"``.
    :param most: its largest size. No more than a byte beyond it is read.
    :param error: raised for a larger one.
    """
    content = read_file(path, 0, most + 1)
    if content is not None and len(content) > most:
        raise error(f"{what} is too large: {path} has more than {most:,} bytes")
    return content
