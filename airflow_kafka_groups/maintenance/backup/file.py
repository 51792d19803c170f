"""The backup's files: Parquet rows with all that a restore needs, and a manifest with the SHA-256 of that file.

Reading verifies: the bytes are those the manifest vouches for, the rows are of this plan and cluster, and every group's
fingerprint, computed from its rows, is the one that stands in them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.maintenance.snapshot.reader import read_offset_rows
from airflow_kafka_groups.maintenance.storage import FORMAT, Layout, StoragePath, parse_time, read_json
from airflow_kafka_groups.models import GroupOffsets, TopicPartition

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEntry:
    """Be one group that is backed up."""

    group_id: str
    group_type: str
    protocol_type: str
    partitions: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Be a backup whose file was read back and compared.

    :param entries: the groups in it, by id.
    :param not_backed_up: the planned groups that are not in it, with the reason: they must not be deleted.
    :param topic_ids: the ids of its topics, as far as brokers told them: a topic that has another was made anew.
    """

    plan_id: str
    plan_digest: str
    cluster: str
    kafka_cluster_id: str
    created_at: datetime
    path: str
    rows: int
    entries: Mapping[str, BackupEntry]
    not_backed_up: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give a summary small enough for XCom."""
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
    """Be one group with its offsets, as a restore needs it; ``log_ends`` maps a partition to (log start, log end)."""

    entry: BackupEntry
    offsets: GroupOffsets
    log_ends: Mapping[TopicPartition, tuple[int | None, int | None]]


def load_backup(layout: Layout, plan_id: str) -> Backup:
    """Read and verify a whole backup; raises ``BackupError``."""
    manifest, path = _manifest(layout, plan_id)
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
        raise BackupError(f"{path} is the backup of plan {backup.plan_id!r} of cluster {backup.cluster!r}")
    entries = entries_of(path, data, backup)
    if len(entries) != groups:
        raise BackupError(f"{path} holds {len(entries)} groups; its manifest says {groups}")
    if both := entries.keys() & backup.not_backed_up.keys():
        raise BackupError(f"{path} holds {min(both)!r}, which its manifest says it does not")
    return Backup(**{**{name: getattr(backup, name) for name in Backup.__slots__}, "entries": entries})


def read_backup(layout: Layout, plan_id: str) -> Iterator[BackedUpGroup]:
    """Give each group of a verified backup with its offsets, sorted by id; raises ``BackupError``."""
    backup = load_backup(layout, plan_id)
    _, path = _manifest(layout, plan_id)
    yield from _groups(path, path.read_bytes(), backup)


def entries_of(path: StoragePath, data: bytes, backup: Backup) -> dict[str, BackupEntry]:
    """Read the groups out of the file's bytes, each verified by its own rows."""
    entries: dict[str, BackupEntry] = {}
    rows = 0
    for group in _groups(path, data, backup):
        if group.entry.group_id in entries:
            raise BackupError(f"{path} holds group {group.entry.group_id!r} in two places")
        entries[group.entry.group_id] = group.entry
        rows += group.entry.partitions
    if rows != backup.rows:
        raise BackupError(f"{path} has {rows} rows and should have {backup.rows}")
    return entries


def manifest_json(backup: Backup, sha256: str, size: int) -> dict[str, Any]:
    """Give the manifest as docs/formats.md shows it."""
    return {
        "format": FORMAT,
        "plan_id": backup.plan_id,
        "plan_digest": backup.plan_digest,
        "cluster": backup.cluster,
        "kafka_cluster_id": backup.kafka_cluster_id,
        "created_at": backup.created_at.isoformat(),
        "groups": len(backup.entries),
        "file": {"name": f"{backup.plan_id}.parquet", "rows": backup.rows, "bytes": size, "sha256": sha256},
        "not_backed_up": dict(backup.not_backed_up),
        "topic_ids": dict(backup.topic_ids),
    }


def backup_schema(pa: Any) -> Any:
    """Give the columns of docs/formats.md."""
    text, number, large = pa.string(), pa.int32(), pa.int64()
    return pa.schema(
        [
            pa.field("cluster", text, nullable=False),
            pa.field("kafka_cluster_id", text, nullable=False),
            pa.field("plan_id", text, nullable=False),
            pa.field("observed_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("group_id", text, nullable=False),
            pa.field("group_type", text, nullable=False),
            pa.field("protocol_type", text, nullable=False),
            pa.field("topic", text, nullable=False),
            pa.field("partition", number, nullable=False),
            pa.field("committed_offset", large, nullable=False),
            pa.field("leader_epoch", number),
            pa.field("metadata", text, nullable=False),
            pa.field("log_start", large),
            pa.field("log_end", large),
            pa.field("fingerprint", text, nullable=False),
        ]
    )


def _manifest(layout: Layout, plan_id: str) -> tuple[dict[str, Any], StoragePath]:
    path = layout.backup_data(plan_id)
    if path.exists() and not layout.backup_manifest(plan_id).exists():
        raise BackupError(f"the backup {path} is half written (it has no manifest): back up again")
    return read_json(layout.backup_manifest(plan_id), "the backup's manifest", BackupError), path


def _verified_bytes(path: StoragePath, manifest: Mapping[str, Any]) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise BackupError(f"the backup {path} cannot be read: {exc}") from exc
    file = manifest.get("file")
    if not isinstance(file, dict) or hashlib.sha256(data).hexdigest() != file.get("sha256"):
        raise BackupError(f"the backup {path} is damaged: it is not the file that its manifest vouches for")
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
        raise BackupError(f"{path}: the rows of group {group_id!r} do not fit their fingerprint")
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
