"""Scanning a part of ``__consumer_offsets``: the newest record of each key is decoded, the others are counted.

All records of a key are in one Kafka partition, ordered by offset, and a task reads complete partitions: it drops
outdated records itself. The kinds of its rows: ``commit``, ``removed`` (a commit that a tombstone removed), ``group``,
``record`` (when a client last caused a group record: whenever a member joins or leaves), and ``count`` (the ``number``
of records of the kind ``name``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.observe.offsets_topic.commit_records import COMMIT_TYPES, Fields, decode_commits, valid_texts
from airflow_kafka_groups.observe.offsets_topic.group_records import (
    CLASSIC_GROUP,
    EPOCH_TYPES,
    MEMBER_TYPES,
    OTHER_TYPES,
    CorruptRecordError,
    FutureRecordError,
    decode_group,
)
from airflow_kafka_groups.storage.schemas import CORRUPT, FUTURE, RECORDS

OUTDATED, TOMBSTONES, COMMITS, GROUPS = "outdated", "tombstones", "commits", "groups"
REMOVED, RECORD = "removed", "record"

SCAN_SCHEMA = (
    "kind string, name string, number long, group_id string, topic string, partition int, committed_offset long, "
    "leader_epoch int, metadata string, committed_at timestamp_ltz, expires_at timestamp_ltz, value_version int, "
    "group_type string, protocol_type string, protocol string, generation int, leader string, "
    "state_changed_at timestamp_ltz, members int, recorded_at timestamp_ltz"
)
"""Rows of every kind; columns of other kinds are null."""

SCAN_TYPES: dict[str, str] = dict(column.split() for column in SCAN_SCHEMA.split(", "))

_TYPES = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "timestamp_ltz": pa.timestamp("us", tz="UTC")}
_SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in SCAN_TYPES.items()])

_COMPACT_AT = 500_000  # the number of records that a task keeps before it drops outdated ones
COLUMNS = ("key", "value", "partition", "offset", "timestamp")
"""What is needed of a record."""


def scan_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Scan the records of a task.

    :param batches: ``pyarrow.RecordBatch`` with key, value, partition, offset, timestamp.
    """
    counts: Counter[str] = Counter()
    held: list[Any] = []
    size = 0
    for batch in batches:
        counts[RECORDS] += batch.num_rows
        held.append(pa.Table.from_batches([batch]))
        size += batch.num_rows
        if size >= _COMPACT_AT:
            held = [pa.concat_tables(newest(pa.concat_tables(held)))]
            # Remaining records are compacted again only after as many new ones.
            size = 0
    if held:
        table, removed = newest(pa.concat_tables(held))
        counts[OUTDATED] = counts[RECORDS] - table.num_rows
        yield from decode(table, counts)
        yield from last_records(pa.concat_tables([table, removed]), counts)
        for batch in decode(removed, Counter()):
            commits = batch.filter(pc.equal(batch["kind"], "commit"))
            yield commits.set_column(0, batch.schema.field(0), pa.repeat(REMOVED, commits.num_rows))
    rows = [{"kind": "count", "name": name, "number": number} for name, number in counts.items()]
    yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def newest(table: Any) -> tuple[Any, Any]:
    """Return the record with the highest offset of each key, in order, and the last one that each tombstone removed.

    What was removed was a sign of life, too.
    """
    ordered = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    keys = ordered.column("key").combine_chunks()
    codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    valued = np.flatnonzero(ordered.column("value").is_valid().to_numpy())
    last, last_valued = (np.full(int(codes.max()) + 1 if len(codes) else 0, -1) for _ in range(2))
    last[codes] = np.arange(len(codes))  # for repeated positions, the last write remains
    last_valued[codes[valued]] = valued
    removed = last_valued[(last_valued >= 0) & (last_valued != last)]
    return ordered.take(np.sort(last)), ordered.take(np.sort(removed))


def last_records(table: Any, counts: Counter[str]) -> Iterator[Any]:
    """Yield when the newest group record of each group was written: each that has a value, and members' tombstones.

    A member's tombstone says that it left. Other tombstones are those of the group: it was deleted, it expired, or it
    changed its type, which has new records.
    """
    found = []
    for batch in table.filter(pc.is_valid(table.column("key"))).combine_chunks().to_batches(max_chunksize=100_000):
        types = Fields(batch["key"]).integer(2)
        is_sign = types > max(COMMIT_TYPES)
        is_sign &= batch["value"].is_valid().to_numpy(zero_copy_only=False) | np.isin(types, MEMBER_TYPES)
        if is_sign.any():
            signs = batch.filter(pa.array(is_sign))
            key = Fields(signs["key"])
            key.integer(2)
            name = key.text()
            good, texts = valid_texts({"group_id": (key, name)}, key.whole)
            counts[CORRUPT] += int((~good & np.isin(types[is_sign], OTHER_TYPES)).sum())
            if good.any():
                at = signs["timestamp"].filter(pa.array(good))
                found.append(pa.table({"group_id": texts["group_id"], "recorded_at": at}))
    if found:
        newest_of = pa.concat_tables(found).group_by("group_id").aggregate([("recorded_at", "max")])
        names, times = (newest_of[name].combine_chunks() for name in ("group_id", "recorded_at_max"))
        columns = {"kind": pa.repeat(RECORD, len(names)), "group_id": names, "recorded_at": times}
        yield pa.record_batch({**dict.fromkeys(SCAN_TYPES, pa.nulls(len(names))), **columns}, schema=_SCHEMA)


def decode(table: Any, counts: Counter[str]) -> Iterator[Any]:
    """Decode records, and count what they are."""
    tombstones = table.column("value").null_count
    alive = table.filter(pc.and_(pc.is_valid(table.column("value")), pc.is_valid(table.column("key"))))
    counts[TOMBSTONES] += tombstones
    counts[CORRUPT] += table.num_rows - tombstones - alive.num_rows  # without a key
    for batch in alive.combine_chunks().to_batches(max_chunksize=100_000):
        yield from _decode_batch(batch, counts)


def _decode_batch(batch: Any, counts: Counter[str]) -> Iterator[Any]:
    types = Fields(batch.column(0)).integer(2)
    is_commit = np.isin(types, COMMIT_TYPES)
    commits = batch if is_commit.all() else batch.filter(pa.array(is_commit))
    if commits.num_rows:
        found = decode_commits(commits.column(0), commits.column(1))
        good = int(found.good.sum())
        counts[COMMITS] += good
        counts[FUTURE] += int(found.future.sum())
        counts[CORRUPT] += int((~found.good & ~found.future).sum())
        recorded = commits.column(4) if good == commits.num_rows else commits.column(4).filter(pa.array(found.good))
        columns = {"kind": pa.repeat("commit", good), **found.columns, "recorded_at": recorded}
        yield pa.record_batch({**dict.fromkeys(SCAN_TYPES, pa.nulls(good)), **columns}, schema=_SCHEMA)
    if not is_commit.all():
        yield from _decode_groups(batch.filter(pa.array(~is_commit)), types[~is_commit], counts)


def _decode_groups(batch: Any, types: Any, counts: Counter[str]) -> Iterator[Any]:
    decoded = np.isin(types, [CLASSIC_GROUP, *EPOCH_TYPES])
    counts.update(CORRUPT if kind < 0 else f"other: key type {kind}" for kind in types[~decoded].tolist())
    rows = []
    for record in batch.filter(pa.array(decoded)).to_pylist():
        try:
            columns = decode_group(record["key"], record["value"])
        except FutureRecordError:
            counts[FUTURE] += 1
        except CorruptRecordError:
            counts[CORRUPT] += 1
        else:
            rows.append({"kind": "group", **columns, "recorded_at": record["timestamp"]})
    counts[GROUPS] += len(rows)
    yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
