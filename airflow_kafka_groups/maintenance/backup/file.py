"""The files of a backup: Parquet rows with everything a restore needs, and a manifest with their SHA-256.

Reading verifies the bytes against the manifest, the rows' plan and cluster, and each group's stored fingerprint against
the one computed from its rows.
"""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from airflow_kafka_groups.contracts.formats import FORMAT
from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.contracts.paths import BACKUPS
from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.maintenance.durable_files import read_file
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.maintenance.snapshot.reader import read_offset_rows
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, parse_json
from airflow_kafka_groups.models import GroupOffsets, TopicPartition

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEntry:
    """A group in a backup."""

    group_id: str
    group_type: str
    protocol_type: str
    partitions: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup whose file was read back and compared.

    :param entries: its groups, by id.
    :param not_backed_up: the planned groups that it lacks, with the reason. They must not be deleted.
    :param topic_ids: the topic ids, as far as brokers reported them. A topic with another id was recreated.
    """

    plan_id: str
    plan_digest: str
    cluster: str
    kafka_cluster_id: str
    created_at: datetime
    path: str = ""
    rows: int
    entries: Mapping[str, BackupEntry]
    not_backed_up: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a summary that is small enough for XCom."""
        return {
            "plan_id": self.plan_id,
            "plan_digest": self.plan_digest,
            "path": self.path,
            "rows": self.rows,
            "groups": len(self.entries),
            "not_backed_up": len(self.not_backed_up),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpGroup:
    """A group with its offsets, for a restore. ``log_ends`` maps a partition to (log start, log end)."""

    entry: BackupEntry
    offsets: GroupOffsets
    log_ends: Mapping[TopicPartition, tuple[int | None, int | None]]


def load_backup(layout: Layout, plan_id: str) -> Backup:
    """Read and verify a complete backup; raises ``BackupError``, also when there is none, and ``StorageError``."""
    backup = find_backup(layout, plan_id)
    if backup is None:
        raise BackupError(f"there is no backup {plan_id}: {layout.backup_manifest(plan_id)} does not exist")
    return backup


def find_backup(layout: Layout, plan_id: str) -> Backup | None:
    """Read and verify a complete backup, ``None`` only if the storage says that its manifest does not exist.

    Raises ``BackupError`` for one that is damaged, and ``StorageError``.
    """
    manifest = _manifest(layout, plan_id)
    if manifest is None:
        return None
    path = _data_path(layout, plan_id, manifest)
    data = _verified_bytes(path, manifest)
    try:
        backup = Backup(
            plan_id=manifest["plan_id"],
            plan_digest=manifest["plan_digest"],
            cluster=manifest["cluster"],
            kafka_cluster_id=manifest["kafka_cluster_id"],
            created_at=parse_time(manifest["created_at"]),
            path=str(path),
            rows=manifest["file"]["rows"],
            entries={},
            not_backed_up=dict(manifest["not_backed_up"]),
            topic_ids=dict(manifest.get("topic_ids", {})),  # earlier backups have none
        )
        groups = manifest["groups"]
    except (KeyError, TypeError, ValueError) as exc:
        raise BackupError(f"the manifest of backup {plan_id} is damaged: {type(exc).__name__}: {exc}") from exc
    if backup.plan_id != plan_id or backup.cluster != layout.cluster:
        raise BackupError(f"{path} belongs to plan {backup.plan_id!r} of cluster {backup.cluster!r}")
    entries = entries_of(path, data, backup)
    if len(entries) != groups:
        raise BackupError(f"{path} contains {len(entries)} groups, but its manifest says {groups}")
    if both := entries.keys() & backup.not_backed_up.keys():
        raise BackupError(f"{path} contains {min(both)!r}, which its manifest lists as not backed up")
    return replace(backup, entries=entries)


def new_data_path(layout: Layout, plan_id: str) -> StoragePath:
    """Return a path for a backup's rows that no other try has: what one try wrote no other replaces."""
    return layout.backup_data(plan_id, secrets.token_hex(4))


def read_backup(layout: Layout, plan_id: str) -> Iterator[BackedUpGroup]:
    """Yield each group of a verified backup with its offsets, sorted by id. Raises ``BackupError``."""
    backup = load_backup(layout, plan_id)
    manifest = _manifest(layout, plan_id)
    if manifest is None:
        raise BackupError(f"the backup {plan_id} disappeared while it was read")
    path = _data_path(layout, plan_id, manifest)
    yield from _groups(path, _verified_bytes(path, manifest), backup)


def entries_of(path: StoragePath, data: bytes, backup: Backup) -> dict[str, BackupEntry]:
    """Return the groups in the file's bytes, each verified by its own rows."""
    entries: dict[str, BackupEntry] = {}
    rows = 0
    for group in _groups(path, data, backup):
        if group.entry.group_id in entries:
            raise BackupError(f"{path} contains group {group.entry.group_id!r} twice")
        entries[group.entry.group_id] = group.entry
        rows += group.entry.partitions
    if rows != backup.rows:
        raise BackupError(f"{path} has {rows} rows instead of {backup.rows}")
    return entries


def manifest_json(backup: Backup, name: str, sha256: str, size: int) -> dict[str, Any]:
    """Return the manifest as specified in docs/formats.md."""
    return {
        "format": FORMAT,
        "plan_id": backup.plan_id,
        "plan_digest": backup.plan_digest,
        "cluster": backup.cluster,
        "kafka_cluster_id": backup.kafka_cluster_id,
        "created_at": backup.created_at.isoformat(),
        "groups": len(backup.entries),
        "file": {"name": name, "rows": backup.rows, "bytes": size, "sha256": sha256},
        "not_backed_up": dict(backup.not_backed_up),
        "topic_ids": dict(backup.topic_ids),
    }


def _manifest(layout: Layout, plan_id: str) -> dict[str, Any] | None:
    path = layout.backup_manifest(plan_id)
    data = read_file(path)
    return None if data is None else parse_json(data, path, "the backup's manifest", BackupError)


def _data_path(layout: Layout, plan_id: str, manifest: Mapping[str, Any]) -> StoragePath:
    """Return the file that the manifest vouches for; the first versions had one name for all tries."""
    file = manifest.get("file")
    name = file.get("name") if isinstance(file, dict) else None
    if not isinstance(name, str) or not re.fullmatch(rf"{re.escape(plan_id)}(-[0-9a-f]{{8}})?\.parquet", name):
        raise BackupError(f"the manifest of backup {plan_id} is damaged: it names the file {name!r}")
    return layout.root / BACKUPS / name


def _verified_bytes(path: StoragePath, manifest: Mapping[str, Any]) -> bytes:
    data = read_file(path)
    if data is None:
        raise BackupError(f"the backup {path} is missing, and its manifest says that it was written")
    if hashlib.sha256(data).hexdigest() != manifest["file"].get("sha256"):
        raise BackupError(f"the backup {path} is damaged: its SHA-256 differs from the manifest's")
    return data


def _groups(path: StoragePath, data: bytes, backup: Backup) -> Iterator[BackedUpGroup]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def rows() -> Iterator[dict[str, Any]]:
        with pq.ParquetFile(io.BytesIO(data)) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS):
                yield from batch.to_pylist()

    try:
        for group_id, of_group in groupby(rows(), key=itemgetter("group_id")):
            yield _verified_group(path, group_id, list(of_group), backup)
    except (KeyError, pa.ArrowException) as exc:
        raise BackupError(f"the backup {path} cannot be read: {exc}") from exc


def _verified_group(path: StoragePath, group_id: str, rows: list[dict[str, Any]], backup: Backup) -> BackedUpGroup:
    offsets = read_offset_rows(group_id, rows)
    first = rows[0]
    partitions = committed_partitions(offsets)
    computed = fingerprint(offsets)
    if partitions != len(rows) or any(row["fingerprint"] != computed for row in rows):
        raise BackupError(f"{path}: the rows of group {group_id!r} do not match their fingerprint")
    wanted = (backup.plan_id, backup.cluster, backup.kafka_cluster_id)
    if any((row["plan_id"], row["cluster"], row["kafka_cluster_id"]) != wanted for row in rows):
        raise BackupError(f"{path}: group {group_id!r} has rows of another plan or cluster")
    entry = BackupEntry(
        group_id=group_id,
        group_type=first["group_type"],
        protocol_type=first["protocol_type"],
        partitions=partitions,
        fingerprint=computed,
    )
    log_ends = {TopicPartition(row["topic"], row["partition"]): (row["log_start"], row["log_end"]) for row in rows}
    return BackedUpGroup(entry=entry, offsets=offsets, log_ends=log_ends)
