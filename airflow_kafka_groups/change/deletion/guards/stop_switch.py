"""The stop switch: a file ``STOP`` in a cluster's folder, or beside these folders, ends every deletion."""

from __future__ import annotations

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.shown import printable
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import STOP

_SHOWN = 200


def why_stopped(layout: Layout) -> str | None:
    """Return why no deletion may go on in this storage, ``None`` if it may. A storage that fails stops it, too."""
    return _why(layout.root / STOP) or _why(layout.base / STOP)


def _why(path: StoragePath) -> str | None:
    try:
        content = FILES.read(path)
    except StorageError as exc:
        return f"the stop switch could not be read: {exc}"
    if content is None:
        return None
    line = content[: 4 * _SHOWN].decode("utf-8", "replace").strip().partition("\n")[0].strip()
    said = printable(line[:_SHOWN])
    return f"somebody created {path}" + (f" ({said})" if said else "") + "; remove it to delete again"
