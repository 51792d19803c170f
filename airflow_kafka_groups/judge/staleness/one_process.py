"""The judgement of a cluster in one process, by threads that read or compute ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pyarrow as pa

from airflow_kafka_groups.judge.staleness.judging import VerdictCounts, judge
from airflow_kafka_groups.judge.staleness.lives import lives_of
from airflow_kafka_groups.judge.staleness.observation_store import (
    DamagedObservationsError,
    ObservationStore,
    create,
    from_file,
    of_snapshot,
    to_file,
)
from airflow_kafka_groups.judge.staleness.observations import reduced
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.observe.history.snapshot_rows import stored_rows
from airflow_kafka_groups.observe.history.snapshots import rows_of
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

T = TypeVar("T")
R = TypeVar("R")
_REMOTE = 16


def each(work: Callable[[T], R], items: Iterable[T], storage: Storage) -> Iterator[R]:
    """Return what a function returns for each item, in order, and compute the next ones meanwhile.

    No more results are kept than twice the number of threads. After an error, nothing of it runs any more.

    :param storage: where the function reads or writes: each wait for one that is not local costs as much as many.
    """
    cores = os.cpu_count() or 1
    threads = cores if storage.is_local else max(cores, _REMOTE)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="observations") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class OneProcess:
    """The runner that judges in this process."""

    def reduce(self, store: ObservationStore) -> None:
        """Reduce the snapshots that have no observations, and store these, each as soon as they are made.

        Raises ``SnapshotError`` for a snapshot whose rows do not match its manifest, and ``StorageError``.
        """
        for _ in each(partial(_reduce, store), store.missing(), store.storage):
            pass

    def judge(
        self, store: ObservationStore, policy: StalenessPolicy, retention: int, output: str, last: None = None
    ) -> tuple[VerdictCounts, list[str]]:
        """Judge the groups, and write their verdicts in place of what a folder has.

        :param retention: the brokers' ``offsets.retention.minutes``; 0: not known.
        :param last: the last records of groups, which need Spark.

        Returns the counts of the verdicts and the names of the files. Raises ``JobError`` if another job wrote there,
        too.
        """
        *names, judged = (manifest.snapshot_id for manifest in store.history.read)
        incomplete = {*store.history.incomplete_ids}
        earlier = zip(
            (name not in incomplete for name in names), each(partial(_read, store), names, store.storage), strict=True
        )
        lives, counts = lives_of(_read(store, judged), earlier, policy), VerdictCounts()

        def verdicts() -> Iterator[pa.Table]:
            for part in lives.judged():
                table = judge(part, policy, retention)
                for verdict, lag in zip(table["verdict"].to_pylist(), table["lag"].to_pylist(), strict=True):
                    counts.add(verdict, 1, lag or 0)
                yield table

        folder = ReplacedFolder(store.storage, output)
        folder.write(arrow_schema(VERDICT_COLUMNS), verdicts())
        return counts, folder.verify("verdicts", "judged")


def _reduce(store: ObservationStore, manifest: SnapshotManifest) -> None:
    name = manifest.snapshot_id
    sources = zip(manifest.files, rows_of(store.history, manifest), strict=True)
    found = [reduced(stored_rows(store.storage, name, file, path), name) for file, path in sources]
    of_snapshot(name, found)
    contents = dict(to_file(table) for table in found if table.num_rows)
    store.publish(manifest, [*contents], lambda file, path: create(store.storage, path, contents[file]))


def _read(store: ObservationStore, snapshot_id: str) -> pa.Table:
    stored, is_judged = store.stored[snapshot_id], snapshot_id == store.history.judged.snapshot_id
    contents = zip(stored.files, map(store.storage.read_bytes, store.paths_of(stored)), strict=True)
    try:
        parts = [from_file(snapshot_id, file, content, everything=is_judged) for file, content in contents]
    except DamagedObservationsError as exc:
        raise store.damaged(snapshot_id) from exc
    return of_snapshot(snapshot_id, parts)
