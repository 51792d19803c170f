"""The paths of all files of a cluster, and functions that write and read them.

Paths are ``pathlib.Path`` or Airflow's ``ObjectStoragePath``; the protocol below lists the methods used, so that
nothing here imports Airflow. Every writer writes data first and the small JSON file that vouches for it last, so that
an incomplete file set is recognizable. docs/formats.md specifies the formats.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias
from urllib.parse import quote

from airflow_kafka_groups.exceptions import ConfigurationError, JournalError, MaintenanceError, StorageError
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.access import described, remedy_of
from airflow_kafka_groups.storage.formats import UnknownFormatError, check_format
from airflow_kafka_groups.storage.local_files import make_folder, sync_folder_if_possible

Clock: TypeAlias = Callable[[], datetime]
Progress: TypeAlias = Callable[[str, int, int], None]
"""A callback with the name of the stage, the number of items done, and their total."""


class StoragePath(Protocol):
    """The part of ``pathlib.Path`` and ``ObjectStoragePath`` that this package uses."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def parent(self) -> StoragePath:
        """The folder that it is in."""

    def __truediv__(self, part: str, /) -> StoragePath: ...

    def exists(self) -> bool:
        """Return whether there is a file or folder."""

    def mkdir(self, mode: int = ..., parents: bool = ..., exist_ok: bool = ...) -> None:
        """Create the folder."""

    def iterdir(self) -> Iterator[StoragePath]:
        """List the folder."""

    def open(self, mode: str, /) -> IO[Any]:
        """Open the file."""

    def read_bytes(self) -> bytes:
        """Read the file."""

    def write_bytes(self, data: bytes, /) -> int:
        """Write the file."""

    def unlink(self) -> None:
        """Remove the file."""


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress: the default of every ``progress`` argument."""


@contextmanager
def storage_errors(what: str, path: StoragePath) -> Iterator[None]:
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


def check_id(field: str, value: object) -> str:
    """Return the id, or raise ``ConfigurationError`` for one that ``new_id()`` cannot have made."""
    if not isinstance(value, str) or not paths.is_id(value):
        raise ConfigurationError(field, value, f"an id looks like {paths.ID_EXAMPLE}: copy it from the file's name")
    return value


def check_cluster(name: object) -> str:
    """Return the name of a cluster's folder, or raise ``ConfigurationError`` for one that storage cannot take."""
    if not isinstance(name, str) or not paths.is_cluster_name(name):
        raise ConfigurationError("cluster", name, paths.CLUSTER_NAME_RULE)
    return name


def cluster_folder(text: str) -> str:
    """Make the name of a cluster's folder from any text, such as a connection id."""
    return check_cluster(paths.cluster_name_from(text))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster. Every id is checked, so that no path leaves its folder.

    :param base: the folder above all clusters.
    :param cluster: the cluster's folder; see ``check_cluster``.
    """

    base: StoragePath
    cluster: str

    def __post_init__(self) -> None:
        check_cluster(self.cluster)

    @property
    def root(self) -> StoragePath:
        """The cluster's folder."""
        return self.base / self.cluster

    @property
    def manifests(self) -> StoragePath:
        """The folder of all snapshots' manifests."""
        return self.root / paths.MANIFESTS

    def snapshot_data(self, snapshot_id: str) -> StoragePath:
        """Return the folder of a snapshot's rows."""
        return self.root / paths.snapshot_data(check_id("snapshot_id", snapshot_id))

    def manifest(self, snapshot_id: str) -> StoragePath:
        """Return the manifest that vouches for a snapshot."""
        return self.root / paths.manifest(check_id("snapshot_id", snapshot_id))

    def members(self, snapshot_id: str) -> StoragePath:
        """Return the file of the members that a snapshot's groups were last seen with."""
        return self.root / paths.MEMBERS / f"{check_id('snapshot_id', snapshot_id)}.parquet"

    def subscriptions(self, snapshot_id: str) -> StoragePath:
        """Return the file of the topics that a snapshot's Stable groups are subscribed to."""
        return self.root / paths.SUBSCRIPTIONS / f"{check_id('snapshot_id', snapshot_id)}.parquet"

    def verdict_summary(self, snapshot_id: str) -> StoragePath:
        """Return the summary of a judgement, which vouches for its verdicts."""
        return self.root / paths.summary(paths.TableName.VERDICTS, check_id("snapshot_id", snapshot_id))

    def verdicts(self, snapshot_id: str) -> StoragePath:
        """Return the folder of a judgement's verdicts."""
        return self.root / paths.partition(paths.TableName.VERDICTS, check_id("snapshot_id", snapshot_id))

    def plan(self, plan_id: str) -> StoragePath:
        """Return the header of a plan."""
        return self.root / paths.plan(check_id("plan_id", plan_id))

    def plan_body(self, plan_id: str) -> StoragePath:
        """Return the file with the groups of a plan."""
        return self.root / paths.plan_body(check_id("plan_id", plan_id))

    def prune_plan(self, plan_id: str) -> StoragePath:
        """Return a plan that prunes topics of live groups."""
        return self.root / paths.PRUNE_PLANS / f"{check_id('plan_id', plan_id)}.json"

    def backup_data(self, plan_id: str, attempt: str) -> StoragePath:
        """Return the file of a backup's rows, as one try writes it; the manifest names the one that counts."""
        return self.root / paths.BACKUPS / f"{check_id('plan_id', plan_id)}-{attempt}.parquet"

    def backup_manifest(self, plan_id: str) -> StoragePath:
        """Return the manifest that vouches for a backup."""
        return self.root / paths.BACKUPS / f"{check_id('plan_id', plan_id)}.json"

    def report(self, plan_id: str) -> StoragePath:
        """Return the file of the report."""
        return self.root / paths.REPORTS / f"{check_id('plan_id', plan_id)}.html"


def write_file(folder: StoragePath, name: str, data: bytes) -> StoragePath:
    """Write a file atomically, as far as the storage allows, and on a disk durably, and verify it by reading it back.

    Raises ``MaintenanceError`` if the storage returns other bytes than were written, and ``StorageError``.
    """
    return write_parts(folder, name, [data])


def write_parts(folder: StoragePath, name: str, parts: Iterable[bytes]) -> StoragePath:
    """Write a file with the guarantees of ``write_file``. On a disk, one part at a time is in memory."""
    path = folder / name
    with storage_errors("written", path):
        if isinstance(path, Path):
            make_folder(path.parent)
            same = _write_local(path, parts)
        else:
            data = b"".join(parts)
            path.write_bytes(data)
            same = path.read_bytes() == data
    if not same:
        raise MaintenanceError(f"{path} differs from what was written: check the storage, then run again")
    return path


def _write_local(path: Path, parts: Iterable[bytes]) -> bool:
    # A crash must not leave a partial file under a name that vouches for others. Object stores write atomically.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    written = hashlib.sha256()
    try:
        with part.open("wb") as file:
            for data in parts:
                file.write(data)
                written.update(data)
            file.flush()
            os.fsync(file.fileno())  # before it has its name: after a power cut, the name could be all that is there
        part.replace(path)
        sync_folder_if_possible(path.parent)
    finally:
        part.unlink(missing_ok=True)  # on a full disk, each try would leave as much as there is room for
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest() == written.digest()


def write_json(folder: StoragePath, name: str, data: Mapping[str, Any]) -> StoragePath:
    """Write an indented JSON file, with the guarantees of ``write_file``."""
    return write_file(folder, name, json_bytes(data))


def write_listing(
    folder: StoragePath, name: str, head: Mapping[str, Any], items: str, rows: Iterable[Mapping[str, Any]]
) -> StoragePath:
    """Write a JSON file that ends with a long list, one entry a line, with the guarantees of ``write_file``.

    :param head: what comes before the list.
    :param items: the list's name.
    :param rows: its entries, which are encoded one by one: of a million only the bytes are ever there.
    """
    begin = json.dumps({**head, items: []}, allow_nan=False).removesuffix("]}")
    encode = json.JSONEncoder(allow_nan=False, check_circular=False).encode  # rows are made for this

    def parts() -> Iterator[bytes]:
        yield begin.encode()
        for number, row in enumerate(rows):
            yield f"{',' if number else ''}\n{encode(row)}".encode()
        yield b"\n]}\n"

    return write_parts(folder, name, parts())


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the content of an indented JSON file."""
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()


def parse_json(
    content: bytes,
    path: StoragePath,
    what: str,
    error: type[MaintenanceError],
    *,
    has_format: bool = True,
) -> dict[str, Any]:
    """Parse the content of a JSON file; see ``json_files.read_json``."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise error(f"{what} in {path} is damaged or incomplete: {exc}") from exc
    if not isinstance(data, dict):
        raise error(f"{what} in {path} is not a JSON object")
    if has_format:
        try:
            check_format(data)
        except UnknownFormatError as exc:
            raise error(f"{what} in {path} cannot be read: {exc}") from exc
    return data


FOLDER = "_journal"
"""Beside the clusters' folders, whose names begin with a letter or digit."""


def journal_folder(base: StoragePath, kafka_cluster_id: str | None) -> StoragePath:
    """Return the folder of a cluster's journal.

    Raises ``JournalError`` for a cluster that does not report its id: its journal could be another cluster's.
    """
    name = quote(kafka_cluster_id or "", safe="")
    if not name.strip("."):
        raise JournalError(f"the cluster reports no usable id ({kafka_cluster_id!r}); nothing is deleted without one")
    return base / FOLDER / name
