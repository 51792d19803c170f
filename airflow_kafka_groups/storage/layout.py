"""The paths of all files of a cluster.

They are ``pathlib.Path`` or Airflow's ``ObjectStoragePath``; a protocol has what both can do, so that nothing here
imports Airflow. Every writer writes data first and the small JSON file that vouches for it last, so that an incomplete
file set is recognizable. docs/formats.md specifies the formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Protocol, TypeAlias
from urllib.parse import quote

from airflow_kafka_groups.exceptions import ConfigurationError, JournalError
from airflow_kafka_groups.storage import paths

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

    def plan(self, plan_id: str, *, prunes: bool = False) -> StoragePath:
        """Return the header of a plan: of groups, or one that prunes topics of live groups."""
        return self._plans(prunes=prunes) / f"{check_id('plan_id', plan_id)}.json"

    def plan_body(self, plan_id: str, *, prunes: bool = False) -> StoragePath:
        """Return the file with the groups of a plan."""
        return self._plans(prunes=prunes) / f"{check_id('plan_id', plan_id)}.parquet"

    def _plans(self, *, prunes: bool) -> StoragePath:
        return self.root / (paths.PRUNE_PLANS if prunes else paths.PLANS)

    def backup_data(self, plan_id: str, attempt: str) -> StoragePath:
        """Return the file of a backup's rows, as one try writes it; the manifest names the one that counts."""
        return self.root / paths.BACKUPS / f"{check_id('plan_id', plan_id)}-{attempt}.parquet"

    def backup_manifest(self, plan_id: str) -> StoragePath:
        """Return the manifest that vouches for a backup."""
        return self.root / paths.BACKUPS / f"{check_id('plan_id', plan_id)}.json"

    def report(self, plan_id: str) -> StoragePath:
        """Return the file of the report."""
        return self.root / paths.REPORTS / f"{check_id('plan_id', plan_id)}.html"


FOLDER = "_journal"
"""Beside the clusters' folders, whose names begin with a letter or digit."""


def journal_folder(base: StoragePath, kafka_cluster_id: str | None) -> StoragePath:
    """Return the folder of a cluster's journal.

    Raises ``JournalError`` for a cluster that does not report its id: its journal could be another cluster's.
    """
    name = quote(kafka_cluster_id or "", safe="")
    if not name.strip("."):
        why = "without one, nothing is deleted, restored or kept alive"
        raise JournalError(f"the cluster reports no usable id ({kafka_cluster_id!r}); {why}")
    return base / FOLDER / name
