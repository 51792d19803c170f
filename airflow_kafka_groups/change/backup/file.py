"""The files of a backup: Parquet rows by group with all that a restore needs, and a manifest with their SHA-256.

Reading verifies the bytes against the manifest, the rows' plan and cluster, and each group's stored fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.kafka.admin.arrow import packed_rows
from airflow_kafka_groups.kafka.models import PACKED_ROW_SIZE, GroupOffsets, TopicOffsets
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.snapshot.reader import BATCH_ROWS, GroupBlock, whole_groups
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.arrow_values import column, fill_nulls, literal, release_unused, repeat, to_numpy
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import elsewhere, parse_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import BACKUPS, parse_time
from airflow_kafka_groups.storage.schemas import BACKUP_COLUMNS, known_columns, with_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpGroup:
    """A group with its offsets, for a restore.

    :param bounds: (log start, log end) of each partition of ``offsets``, in their order; -1 for one that is not known.
    """

    entry: Target
    offsets: GroupOffsets
    bounds: tuple[Sequence[int], ...]


def groups_of(block: GroupBlock, entries: Sequence[Target]) -> Iterator[BackedUpGroup]:
    """Yield the groups of a verified block with their offsets: none for a row without a topic, as snapshots have it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topics = block.rows["topic"].dictionary_encode()
    names = topics.dictionary.to_pylist()
    group = repeat(column(range(len(block)), pa.int64()), column(block.ends, pa.int32()))
    none = len(names)
    key = pc.add(pc.multiply(group, literal(none + 1)), fill_nulls(topics.indices, none))
    runs, rows = pc.run_end_encode(key), block.rows
    numbers = {name: to_numpy(fill_nulls(rows[name], -1)) for name in _NUMBERS}
    packed = packed_rows(*(numbers[name] for name in ("partition", "committed_offset", "leader_epoch")))
    metadata = fill_nulls(rows["metadata"], "")
    texts = metadata.to_pylist() if pc.max(pc.binary_length(metadata)).as_py() else []
    ends = zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True)
    for entry, (start, end) in zip(entries, pairwise([0, *block.ends]), strict=True):
        parts, first = [], start
        while first < end:
            last, number = next(ends)
            if (topic := number % (none + 1)) != none:
                part = TopicOffsets(names[topic], packed[first * PACKED_ROW_SIZE : last * PACKED_ROW_SIZE])
                if any(texts[first:last]):
                    part.metadata = tuple(texts[first:last])
                parts.append(part)
            first = last
        bounds = numbers["log_start"][start:end].tolist(), numbers["log_end"][start:end].tolist()
        yield BackedUpGroup(entry=entry, offsets=GroupOffsets(entry.group_id, tuple(parts)), bounds=bounds)


_NUMBERS = ("partition", "committed_offset", "leader_epoch", "log_start", "log_end")
"""The columns of numbers. A number that is not known becomes -1."""


_IDS = ("plan_id", "cluster", "kafka_cluster_id")
"""What every row says, too."""


OUT_OF_REACH = "it is protected, and this user may not read it"
"""The reason in a backup of all groups that is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup whose file was read back and compared.

    :param entries: its groups, by id.
    :param not_backed_up: what was planned and it lacks, with the reason: groups, or topics by their names in the
        journal. They must not be deleted.
    :param partial: whether it has only some topics of its groups, because only those were deleted.
    :param topic_ids: the topic ids, as far as brokers reported them. A topic with another id was recreated.
    """

    plan_id: str
    plan_digest: str
    cluster: str
    kafka_cluster_id: str
    created_at: datetime
    path: str = ""
    rows: int
    entries: Mapping[str, Target]
    not_backed_up: Mapping[str, str]
    topic_ids: Mapping[str, str]
    partial: bool

    @property
    def failures(self) -> dict[str, str]:
        """What could not be backed up, though it should have been, with the reason."""
        return {name: reason for name, reason in self.not_backed_up.items() if reason != OUT_OF_REACH}

    def to_json(self) -> dict[str, Any]:
        """Return a summary that is small enough for XCom."""
        return {
            "plan_id": self.plan_id,
            "plan_digest": self.plan_digest,
            "path": self.path,
            "rows": self.rows,
            "groups": len(self.entries),
            "not_backed_up": len(self.failures),
        }


def load_backup(layout: Layout, plan_id: str) -> Backup:
    """Read and verify a complete backup; raises ``BackupError``, also when there is none, and ``StorageError``."""
    return open_backup(layout, plan_id)[0]


def find_backup(layout: Layout, plan_id: str) -> Backup | None:
    """Read and verify a complete backup, ``None`` only if the storage says that its manifest does not exist.

    Raises ``BackupError`` for one that is damaged, and ``StorageError``.
    """
    found = _open(layout, plan_id)
    return None if found is None else found[0]


def open_backup(layout: Layout, plan_id: str) -> tuple[Backup, Iterator[BackedUpGroup]]:
    """Read and verify a complete backup, and return it with its groups, sorted by id. Raises as ``load_backup``."""
    if (found := _open(layout, plan_id)) is None:
        path = layout.backup_manifest(plan_id)
        remedy = "Check the id, storage_path and cluster"
        raise BackupError(f"there is no backup {plan_id}: {path} does not exist. {remedy}")
    backup, path, data = found
    known = backup.entries  # of these very bytes: nothing is computed again
    blocks = _blocks(path, data)
    return backup, (group for block in blocks for group in groups_of(block, [known[id_] for id_ in block.group_ids]))


def _open(layout: Layout, plan_id: str) -> tuple[Backup, StoragePath, bytes] | None:
    content = FILES.read(place := layout.backup_manifest(plan_id))
    if content is None:
        return None
    manifest = parse_json(content, place, "the backup's manifest", BackupError)
    path, data = _verified_rows(layout, plan_id, manifest)
    with unless_damaged(BackupError, f"the manifest of backup {plan_id}"):
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
            topic_ids=dict(manifest["topic_ids"]),
            partial=manifest.get("partial") is True,
        )
        groups = manifest["groups"]
        if not all(isinstance(getattr(backup, name), str) for name in _IDS):
            raise TypeError(f"one of {', '.join(_IDS)} is no string")
    if backup.plan_id != plan_id or backup.cluster != layout.cluster:
        of = f"{path} belongs to plan {backup.plan_id!r} of cluster {backup.cluster!r}"
        raise BackupError(f"{of}: {elsewhere(backup.cluster, layout.cluster)}")
    entries = entries_of(path, data, backup)
    if len(entries) != groups:
        raise BackupError(f"{path} contains {len(entries)} groups, but its manifest says {groups}")
    # What a partial one lacks is named by topic, and a group may be called like a topic of another one.
    if not backup.partial and (both := entries.keys() & backup.not_backed_up.keys()):
        raise BackupError(f"{path} contains {min(both)!r}, which its manifest lists as not backed up")
    return replace(backup, entries=entries), path, data


def entries_of(path: StoragePath, data: bytes, backup: Backup) -> dict[str, Target]:
    """Return the groups in the file's bytes, each verified by its own rows."""
    entries: dict[str, Target] = {}
    rows = 0
    for block in _blocks(path, data):
        with unless_damaged(BackupError, f"the backup {path}"):
            of_block = _verified_entries(path, block, backup)
        for entry in of_block:
            if entry.group_id in entries:
                raise BackupError(f"{path} contains group {entry.group_id!r} twice")
            entries[entry.group_id] = entry
        rows += len(block.rows)
        release_unused()
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
        **({"partial": True} if backup.partial else {}),
    }


def _verified_rows(layout: Layout, plan_id: str, manifest: Mapping[str, Any]) -> tuple[StoragePath, bytes]:
    file = manifest.get("file")
    name = file.get("name") if isinstance(file, dict) else None
    if not isinstance(name, str) or not re.fullmatch(rf"{re.escape(plan_id)}-[0-9a-f]{{8}}\.parquet", name):
        raise BackupError(f"the manifest of backup {plan_id} is damaged: it names the file {name!r}")
    data = FILES.read(path := layout.root / BACKUPS / name)
    if data is None:
        raise BackupError(f"the backup {path} is missing, and its manifest says that it was written")
    if hashlib.sha256(data).hexdigest() != manifest["file"].get("sha256"):
        raise BackupError(f"the backup {path} is damaged: its SHA-256 differs from the manifest's")
    return path, data


def _blocks(path: StoragePath, data: bytes) -> Iterator[GroupBlock]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data)) as parquet:
            known = known_columns(parquet.schema_arrow, BACKUP_COLUMNS)
            batches = parquet.iter_batches(BATCH_ROWS, columns=known, use_threads=False)
            yield from whole_groups(with_missing(batch, BACKUP_COLUMNS) for batch in batches)
    except (KeyError, ValueError, pa.ArrowException) as exc:
        raise BackupError(f"the backup {path} cannot be read: {exc}") from exc


def _verified_entries(path: StoragePath, block: GroupBlock, backup: Backup) -> list[Target]:
    """Return the groups of a block, whose rows were all compared with the manifest and with their fingerprint."""
    import pyarrow.compute as pc

    computed, partitions = block.fingerprints()
    bounds = pairwise([0, *block.ends])
    lacking = next((n for n, (start, end) in enumerate(bounds) if partitions[n] != end - start), None)
    differing = _first_false(pc.equal(block.rows["fingerprint"], block.repeated(computed)))
    if lacking is not None or differing is not None:
        group_id = block.group_ids[lacking] if lacking is not None else block.rows["group_id"][differing].as_py()
        raise BackupError(f"{path}: the rows of group {group_id!r} do not match their fingerprint")
    for name in _IDS:
        if (row := _first_false(pc.equal(block.rows[name], literal(getattr(backup, name))))) is not None:
            group_id = block.rows["group_id"][row].as_py()
            raise BackupError(f"{path}: group {group_id!r} has rows of another plan or cluster")
    kinds = [block.first(name).dictionary_encode() for name in ("group_type", "protocol_type")]
    names = [kind.dictionary.to_pylist() for kind in kinds]  # one string for all groups of a kind
    group_types, protocol_types = (
        [known[number] for number in kind.indices.to_pylist()] for kind, known in zip(kinds, names, strict=True)
    )
    columns = (block.group_ids, group_types, protocol_types, computed, partitions)
    return [Target(*each) for each in zip(*columns, strict=True)]


def _first_false(matches: Any) -> int | None:
    """Return the first row that does not match; a null matches nothing."""
    import pyarrow.compute as pc

    row: int = pc.index(fill_nulls(matches, False), literal(False)).as_py()  # the values, not switches
    return None if row < 0 else row
