"""The errors for files of this package that are damaged, or lie where they do not belong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.ids import is_cluster_name


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
