"""The judgement by buckets of groups, for tasks that see one bucket at a time. No I/O.

The part of the judged snapshot comes first, since its groups are judged, and is also the last one. A snapshot that has
no part in a bucket counts, too: it ends the lives of the groups that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from airflow_kafka_groups.judge.staleness.judging import judge
from airflow_kafka_groups.judge.staleness.lives import NEVER, lives_of
from airflow_kafka_groups.judge.staleness.observation_store import nothing, of_snapshot
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.storage.arrow_values import of_numpy

LAST_RECORDS, JUDGED = -2, -1
"""The places of what comes before all snapshots: last records, and the observations that are judged."""

Times = tuple[int, int]
"""When a group committed last, and when its last group record was written, in microseconds since 1970."""

NOT_KNOWN: Times = (NEVER, NEVER)

Part = tuple[int, int, Any]
"""The label of a bucket, the place of a snapshot or one of the above, and a table as ``packed`` returned it."""

_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(table: pa.Table) -> bytes:
    """Return a table as bytes: half of its size, for less than a copy of them takes."""
    with pa.BufferOutputStream() as stream:
        with pa.ipc.new_stream(stream, table.schema, options=_PACKED) as writer:
            writer.write_table(table)
        content: bytes = stream.getvalue().to_pybytes()
    return content


def cut(table: pa.Table, count: int) -> list[pa.Table]:
    """Cut rows into buckets by their ``group_id``."""
    bucket = np.array([crc32(group_id.encode()) % count for group_id in table["group_id"].to_pylist()], np.int64)
    order = np.argsort(bucket, kind="stable")
    sorted_rows, ends = table.take(of_numpy(order)), np.searchsorted(bucket[order], np.arange(count + 1)).tolist()
    return [sorted_rows.slice(begin, end - begin) for begin, end in pairwise(ends)]


class Judgement(NamedTuple):
    """What a judgement of buckets needs besides their parts.

    :param snapshots: the id of each snapshot, in their order, and whether it is complete. The last one is judged.
    :param retention: the brokers' ``offsets.retention.minutes``; 0: not known.
    :param observed_from: see ``LivesPart.with_last_records``.
    """

    policy: StalenessPolicy
    snapshots: Sequence[tuple[str, bool]]
    retention: int
    observed_from: Sequence[int]


def judged_buckets(judgement: Judgement, parts: Iterable[Part]) -> Iterator[pa.Table]:
    """Return the verdicts on the groups of buckets, some at a time.

    :param parts: those of some buckets, sorted by bucket and place. One table of each snapshot is in memory.

    Raises ``SnapshotError`` for a group that is in two files of a snapshot.
    """
    for _, of_bucket in groupby(parts, itemgetter(0)):
        yield from _judged(judgement, ((place, [*each]) for place, each in groupby(of_bucket, itemgetter(1))))


def _judged(judgement: Judgement, found: Iterator[tuple[int, list[Part]]]) -> Iterator[pa.Table]:
    policy, retention, snapshots = judgement.policy, judgement.retention, judgement.snapshots
    following, records = next(found, None), dict[str, Times]()
    if following and following[0] == LAST_RECORDS:
        records = _records(following[1])
        following = next(found, None)
    if not following or following[0] != JUDGED:  # no group of this bucket is judged
        return
    newest = _table(snapshots[-1][0], following[1])

    def earlier() -> Iterator[tuple[bool, pa.Table]]:
        part = next(found, None)
        for place, (snapshot_id, is_complete) in enumerate(snapshots[:-1]):
            if part and part[0] == place:
                yield is_complete, _table(snapshot_id, part[1])
                part = next(found, None)
            else:
                yield is_complete, nothing()
        if part:
            raise ValueError(f"a part of a bucket is of the snapshot {part[0]} of {len(snapshots)}, or out of order")

    for lives in lives_of(newest, earlier(), policy).judged():
        if records:
            of_groups = [records.get(group_id, NOT_KNOWN) for group_id in lives.group_ids]
            times = np.array(of_groups, np.int64).reshape(-1, 2).T.copy()
            lives = lives.with_last_records(times[0], times[1], np.array(judgement.observed_from, np.int64))
        yield judge(lives, policy, retention)


def _table(snapshot_id: str, parts: Sequence[Part]) -> pa.Table:
    return of_snapshot(snapshot_id, [pa.ipc.open_stream(content).read_all() for *_, content in parts])


def _records(parts: Sequence[Part]) -> dict[str, Times]:
    """Return the last records of groups. Of two rows of a group, which there should not be, the later one counts."""
    found = dict[str, Times]()
    for *_, content in parts:
        for group_id, *at in zip(*pa.ipc.open_stream(content).read_all().to_pydict().values(), strict=True):
            commit, record = found.get(group_id, NOT_KNOWN)
            found[group_id] = max(at[0] or NEVER, commit), max(at[1] or NEVER, record)
    return found
