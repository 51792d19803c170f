"""Opening paths and URLs of an operator's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, StorageError
from airflow_kafka_groups.hooks.arguments import read_place, read_text

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.kafka.models import TopicPartition
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.storage.layout import Layout, StoragePath


_USUAL = "aws_default"  # Amazon's provider uses it if it exists


def open_path(field: str, value: Any) -> StoragePath:
    """Return a path: ``/data/x`` and ``file:///data/x`` are local, ``s3://``, ``gs://`` and Azure's are object stores.

    Credentials of object stores come from an Airflow connection: ``s3://my_aws_conn@bucket/folder``. Raises
    ``ConfigurationError`` for a relative path and a URL with a password, ``StorageError`` for a storage that is away.
    """
    text = read_place(field, value)
    parts = urlsplit(text)
    if parts.scheme and parts.scheme != "file":
        return _open_object_store(field, text)
    if parts.scheme and {"?", "#"} & set(text):  # what follows is no part of a URL's path
        raise ConfigurationError(field, value, "must have %3F for '?' and %23 for '#', since it is a URL")
    path = Path(unquote(parts.path) if parts.scheme else text)
    if not path.is_absolute() or (parts.scheme and parts.netloc):
        raise ConfigurationError(field, value, "must be an absolute path or a URL such as file:///data or s3://bucket")
    return path


def _open_object_store(field: str, text: str) -> StoragePath:
    from airflow.sdk import ObjectStoragePath
    from airflow.sdk.io import has_fs

    from airflow_kafka_groups.storage.access import described, remedy_of, without_secrets
    from airflow_kafka_groups.storage.object_store import OBJECT_STORES, S3, SUPPORTED

    if urlsplit(text).scheme not in OBJECT_STORES:
        raise ConfigurationError(field, text, SUPPORTED)
    try:
        path = ObjectStoragePath(text)
        if path.protocol in S3 and path.conn_id not in (None, _USUAL):
            _require_connection(path.conn_id, field)
        _ = path.fs  # in the task's own thread, not in the event loop: it reads an Airflow connection
    except KafkaGroupsError:
        raise
    except Exception as exc:  # noqa: BLE001 - of whatever class the library's is
        shown, cause = described(exc)
        # A key or a login that cannot be parsed is a ``ValueError``, too.
        if isinstance(exc, ImportError) or (isinstance(exc, ValueError) and not has_fs(urlsplit(text).scheme)):
            why = without_secrets(str(exc))
            remedy = "Install the provider of this kind of storage, e.g. apache-airflow-providers-amazon[s3fs]"
            raise ConfigurationError(field, text, f"{why}. {remedy}") from cause
        raise StorageError(f"{text} could not be opened: {shown}. {remedy_of(exc)}") from cause
    return cast("StoragePath", path)


@cache
def _require_connection(conn_id: str, field: str) -> None:
    """Raise for a missing connection: Amazon's provider would go on with the machine's own credentials."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    from airflow_kafka_groups.hooks.airflow_lookups import lookup_error

    try:
        BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, PermissionError) as exc:
        raise lookup_error(conn_id, exc, field, "Amazon Web Services") from None


def open_policy(field: str, value: Any, floors: SiteFloors) -> PolicyFile:
    """Read a policy file. Raises ``PlanError``, unread, for another than the floors allow, and ``PolicyError``."""
    floors.require_policy_file(read_text(field, value))
    return _policy_loader(field, value)()


def read_offsets_file(field: str, value: Any, group_ids: Sequence[str] | None) -> dict[str, dict[TopicPartition, int]]:
    """Read offsets by group and partition from a CSV file; see ``read_offsets_csv``."""
    from airflow_kafka_groups.change.restore.offsets_csv import LARGEST, read_offsets_csv
    from airflow_kafka_groups.storage.json_files import read_named

    content = read_named(path := open_path(field, value), "the file of offsets", LARGEST, StorageError)
    if content is None:
        raise ConfigurationError(field, str(path), "does not exist")
    return read_offsets_csv(field, str(path), content, group_ids)


def policy_reader(policy: PlanPolicy) -> Callable[[], PolicyFile | None]:
    """Return what reads a plan's policy file, if it has one, in any thread: after the wait for a lease.

    It is opened here, in the task's own thread, and read once: a file that is wrong fails before the wait.
    """
    if policy.file is None:
        return lambda: None
    load = _policy_loader("policy_file", policy.file.path)
    load()
    return load


def _policy_loader(field: str, value: Any) -> Callable[[], PolicyFile]:
    from dataclasses import replace

    from airflow_kafka_groups.judge.policy.policy_file import load_policy

    path = open_path(field, value)
    # The path as it was given: an object store's own spelling loses the connection that opens it.
    return lambda: replace(load_policy(path), path=read_text(field, value))


def open_layout(storage_path: Any, cluster: Any, conn_id: str) -> Layout:
    """Return the layout of one cluster's files.

    :param cluster: the cluster's folder; ``None`` for the connection's id.
    """
    from airflow_kafka_groups.storage.arrow_values import use_system_allocator
    from airflow_kafka_groups.storage.layout import Layout, check_cluster, cluster_folder

    use_system_allocator()  # whatever opens a storage reads or writes large tables there
    folder = cluster_folder(conn_id) if cluster is None else check_cluster(read_text("cluster", cluster))
    return Layout(open_path("storage_path", storage_path), folder)
