"""The reduction of a snapshot to observations: one row for each group, with what later judgements need of it.

What a group has committed becomes a digest over all its partitions: their number, and the exclusive-or and the sum of
their 64-bit hashes. Files are read in parts, each is reduced at once, and observations of parts are combined as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.judge.staleness.lives import Ints, Numbers, Strings, encoded, valid_of
from airflow_kafka_groups.kafka.admin.arrow import lag_and_lost
from airflow_kafka_groups.storage.arrow_values import empty_table, fill_nulls, literal, of_numpy, to_numpy
from airflow_kafka_groups.storage.schemas import OBSERVATION_COLUMNS, unchecked_schema

_SCHEMA = unchecked_schema(OBSERVATION_COLUMNS)
_CONTRADICTION = "its rows in this snapshot contradict one another"
_DIGEST_BITS_DROPPED = np.uint64(24)  # of 64: the remaining 40 bits allow a sum over 8 million partitions in an int64
_SAME = ("group_type", "protocol_type", "state")
"""What all rows of a group say alike."""

_OFFSETS = ("committed_offset", "log_start", "log_end")
_TEXTS = ("group_id", *_SAME, "error")
_NO_METADATA = np.uint64(0x9E3779B97F4A7C15)
_COMBINED_BY: dict[str, Callable[[Numbers, Ints], Numbers]] = {
    **dict.fromkeys(("observed_at", "members", "coordinator"), Numbers.most),
    "digest_xor": Numbers.xor,
    "nearest": Numbers.least,
}
"""How numbers of one group are combined. Default: added up."""


def reduced(parts: Iterable[pa.RecordBatch], snapshot_id: str) -> pa.Table:
    """Reduce a snapshot's rows to one row for each group, with the columns of ``OBSERVATION_COLUMNS``."""
    return combined([_observed(part, snapshot_id) for part in parts])


def combined(parts: Sequence[pa.Table]) -> pa.Table:
    """Combine observations of parts of a snapshot to one row for each group, sorted by group."""
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([empty_table(_SCHEMA), *parts])
    if not table.num_rows:
        return table
    texts = {name: Strings.of(table[name]) for name in _TEXTS}
    numbers = {name: Numbers.of(table[name]) for name in table.column_names if name not in ("run_id", *_TEXTS)}
    return _grouped(texts, numbers, table["run_id"][0].as_py())


def _observed(rows: pa.RecordBatch, snapshot_id: str) -> pa.Table:
    offset, start = (Numbers.of(rows[name]) for name in _OFFSETS[:2])
    committed = valid_of(rows["topic"]) & offset.known & (offset.values >= 0)
    lag, lost = (Numbers.of(found) for found in lag_and_lost(*(rows[name] for name in _OFFSETS)))
    has_start, has_lag = committed & start.known, committed & lag.known
    digest = np.where(committed, _digests(rows, offset.values), np.uint64(0))
    numbers = {
        **{name: Numbers.of(rows[name]) for name in ("observed_at", "members", "coordinator")},
        "partitions": Numbers(committed.astype(np.int64)),
        "digest_xor": Numbers(digest.view(np.int64)),
        "digest_sum": Numbers((digest >> _DIGEST_BITS_DROPPED).view(np.int64)),
        "lag": Numbers(lag.values, has_lag),
        "lag_unknown": Numbers((committed & ~has_lag).astype(np.int64)),
        "lost": Numbers(lost.values, has_lag),
        "log_start": Numbers(start.values, has_start),
        "nearest": Numbers(offset.values - start.values, has_start),
    }
    return _grouped({name: Strings.of(rows[name]) for name in _TEXTS}, numbers, snapshot_id)


def _digests(rows: pa.RecordBatch, offsets: Ints) -> npt.NDArray[np.uint64]:
    """Hash what each row has committed (topic, partition, offset, leader epoch, metadata), and its group's epoch.

    The epoch (KIP-848) moves whenever a member joins or leaves; one that is not known, or no more, is another one.
    """
    numbers = ("partition", "leader_epoch", "group_epoch")
    partition, epoch, of_group = (Numbers.of(rows[name], -1).values for name in numbers)
    found = _hashes(rows["topic"])
    for each in (partition, offsets, epoch, of_group):
        found = _mixed(found ^ each.view(np.uint64))
    return _mixed(found ^ _hashes(rows["metadata"]))


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64 bits so that each depends on all (the finalizer of SplitMix64); different numbers stay different."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed


def _hashes(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Hash strings; null has another hash than any string."""
    found = encoded(column)
    each = [blake2b(text.encode(), digest_size=8).digest() for text in found.dictionary.to_pylist()]
    known = np.append(np.frombuffer(b"".join(each), np.uint64), _NO_METADATA)
    hashes: npt.NDArray[np.uint64] = known[to_numpy(fill_nulls(found.indices, len(each)))]
    return hashes


def _grouped(texts: Mapping[str, Strings], numbers: Mapping[str, Numbers], snapshot_id: str) -> pa.Table:
    group = texts["group_id"].places
    if not (group[1:] >= group[:-1]).all():
        order = np.argsort(group, kind="stable")
        group = group[order]
        texts = {name: column.take(order) for name, column in texts.items()}
        numbers = {name: column.take(order) for name, column in numbers.items()}
    begins = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    made = {name: texts[name].pick(np.maximum, begins) for name in ("group_id", *_SAME)}
    error = texts["error"].pick(np.minimum, begins)
    contradicts = np.logical_or.reduce([texts[name].differ(begins) for name in _SAME])
    if contradicts.any():
        error = pc.coalesce(
            error, pc.if_else(of_numpy(contradicts), literal(_CONTRADICTION), literal(None, pa.string()))
        )
    made |= {"run_id": pa.repeat(literal(snapshot_id), len(begins)), "error": error}
    for name, column in numbers.items():
        combine = _COMBINED_BY.get(name, Numbers.sum)
        made[name] = combine(column, begins).stored(_SCHEMA.field(name).type)
    return pa.table([made[name] for name in _SCHEMA.names], schema=_SCHEMA)
