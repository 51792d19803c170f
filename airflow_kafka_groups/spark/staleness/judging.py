"""Computing the state to be judged: from the complete history, from the previous state, or both.

``full`` reads every snapshot. ``incremental`` continues the stored state, and reads the complete history only if that
state is not usable (see ``state_store.py``). ``check`` does both and fails if they differ in any group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import SPARK_ERRORS, JobError, StorageError
from airflow_kafka_groups.spark.ledger.snapshots import (
    Extent,
    History,
    check_rows,
    find_history,
    read_rows,
    watch_rows,
)
from airflow_kafka_groups.spark.preflight import FEW_ROWS, fit_plans, fit_shuffles
from airflow_kafka_groups.spark.staleness.advance import advance
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import positions
from airflow_kafka_groups.spark.staleness.state_store import (
    StagedState,
    StateError,
    StateManifest,
    StateStore,
    differences,
)
from airflow_kafka_groups.spark.staleness.transforms import observations, replay

MODES = ("full", "incremental", "check")
_MOST_STEPS = 24
"""The maximum number of new snapshots for steps: a plan of very many steps takes longer than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """The history to judge, and how.

    :param base: folder with one folder per cluster.
    :param cluster: name of the cluster.
    :param mode: one of ``MODES``.
    :param snapshot_id: the snapshot to judge. Default: the newest.
    :param max_snapshots: maximum number of complete snapshots when the history is read.
    :param max_days: maximum age of snapshots in days before the judged one, when the history is read; 0: no limit.
    """

    base: str
    cluster: str
    mode: str = "full"
    snapshot_id: str | None = None
    max_snapshots: int = 1000
    max_days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """A state, and what it was computed from.

    :param state: one row for each group of the judged snapshot.
    :param history: the snapshots that were read.
    :param before: the state that was continued; ``None`` if the complete history was read.
    :param extent: the groups of the judged snapshot, and the times of what was read.
    :param why_full: why an incremental run read the complete history; empty if it did not.
    :param staged: the same state on storage, to be finished when the verdicts are written; ``None`` in mode ``full``.
    """

    state: DataFrame
    history: History
    before: StateManifest | None
    extent: Extent
    why_full: str = ""
    staged: StagedState | None = None

    @property
    def snapshots(self) -> int:
        """The number of complete snapshots that this state was computed from."""
        return len(self.history.manifests) + (self.before.snapshots if self.before else 0)

    @property
    def first_snapshot(self) -> str:
        """The oldest of these snapshots."""
        return self.before.first_snapshot if self.before else self.history.snapshot_ids[0]

    @property
    def oldest_observation(self) -> str | None:
        """The time of the oldest observation in these snapshots."""
        return self.before.oldest_observation if self.before else self.extent.oldest


@contextmanager
def judged_history(spark: SparkSession, request: HistoryRequest, policy: StalenessPolicy) -> Iterator[JudgedHistory]:
    """Find and check the snapshots, and provide the state; afterwards release caches and remove unfinished states.

    :param spark: the session.
    :param request: the history, and how to judge it.
    :param policy: the staleness policy.

    Raises ``SnapshotError`` for an incomplete snapshot, ``JobError`` if a check finds a difference.
    """
    store = StateStore(spark, f"{request.base}/{request.cluster}")
    history, before, why = _find(spark, store, request, policy)
    cached: list[DataFrame] = []
    try:
        judged: JudgedHistory | None = None
        if before is not None:
            try:
                judged = _carried(spark, store, history, before, policy)
            except StateError as exc:
                (history, _, _), why = _find(spark, store, request, policy, with_state=False), str(exc)
        yield judged or _replayed(spark, store, history, request, policy, why, cached)
    except BaseException:
        if request.mode != "full":
            with suppress(StorageError):  # the first error is the one to report
                store.remove(history.judged.snapshot_id)
        raise
    finally:
        for frame in cached:
            frame.unpersist()


def _carried(
    spark: SparkSession, store: StateStore, history: History, before: StateManifest, policy: StalenessPolicy
) -> JudgedHistory:
    """Update a state by the snapshots after it. Raises ``StateError`` if it is not usable."""
    if before.kafka_cluster_id != history.judged.kafka_cluster_id:
        raise StateError("the state is of another Kafka cluster")
    _fit(spark, history, also=before.groups)
    if _is_small_step(spark, history, before):
        staged, extent = _carried_at_once(spark, store, history, before, policy)
        return JudgedHistory(state=staged.rows, history=history, before=before, extent=extent, staged=staged)
    observed = _observed(spark, history).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        extent = check_rows(observed, history)
        state = carry(store.read(before), observed, history.snapshot_ids, policy, history.incomplete_ids)
        staged = store.stage(history.judged.snapshot_id, state)
    finally:
        observed.unpersist()
    return JudgedHistory(state=staged.rows, history=history, before=before, extent=extent, staged=staged)


def _carried_at_once(
    spark: SparkSession, store: StateStore, history: History, before: StateManifest, policy: StalenessPolicy
) -> tuple[StagedState, Extent]:
    """Read and check the snapshot, update the state and write it in one Spark job, because jobs dominate a small step.

    The state is checked concurrently: a separate job, but an idle core runs it while the driver plans the step, and it
    loads what the step needs next.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="check-state") as aside:
        state = aside.submit(store.read, before)
        observed = _observed(spark, history)
        watched, check_observed = watch_rows(observed, history)
        try:
            # merged, because a broadcast is a separate job
            step = store.rows(before).hint("merge").transform(advance(policy, watched))
            staged = store.stage(history.judged.snapshot_id, step)
        except SPARK_ERRORS:
            state.result()  # raises if the state cannot be read
            check_rows(observed, history)  # raises if the snapshot cannot be read
            raise
        state.result()
        return staged, check_observed()


def _replayed(
    spark: SparkSession,
    store: StateStore,
    history: History,
    request: HistoryRequest,
    policy: StalenessPolicy,
    why: str,
    cached: list[DataFrame],
) -> JudgedHistory:
    """Compute the state from the complete history. Cached frames are added to ``cached``."""
    _fit(spark, history)
    observed = _observed(spark, history).persist(StorageLevel.MEMORY_AND_DISK)
    cached.append(observed)
    extent = check_rows(observed, history)
    state = observed.transform(replay(policy, history.snapshot_ids, history.incomplete_ids))
    if request.mode == "full":
        return JudgedHistory(state=state, history=history, before=None, extent=extent)
    found = store.find(history.listed, history.judged.snapshot_id, policy) if request.mode == "check" else why
    staged = store.stage(history.judged.snapshot_id, state)
    if request.mode == "check":
        why = _check(store, staged.rows, observed, history, policy, found)
    return JudgedHistory(state=staged.rows, history=history, before=None, extent=extent, why_full=why, staged=staged)


def _fit(spark: SparkSession, history: History, also: int = 0) -> None:
    rows = sum(manifest.rows for manifest in history.read)
    fit_shuffles(spark, rows)
    fit_plans(spark, rows + also)


def _observed(spark: SparkSession, history: History) -> DataFrame:
    return read_rows(spark, history).transform(observations())


def _is_small_step(spark: SparkSession, history: History, before: StateManifest) -> bool:
    """Return whether one job is enough. Adaptive plans may drop an empty part with its counts, so they are excluded."""
    rows = history.judged.rows
    adaptive = str(spark.conf.get("spark.sql.adaptive.enabled")).lower() != "false"
    return len(history.read) == 1 and 0 < rows <= FEW_ROWS and before.groups > 0 and not adaptive


def carry(
    state: DataFrame,
    observed: DataFrame,
    snapshot_ids: Sequence[str],
    policy: StalenessPolicy,
    incomplete_ids: Sequence[str] = (),
) -> DataFrame:
    """Update a state by each of these snapshots.

    :param state: the state before the first of them.
    :param observed: their observations.
    :param snapshot_ids: complete snapshots, oldest first.
    :param policy: the policy that the state was computed with.
    :param incomplete_ids: incomplete snapshots between the state's and the last of them. Default: none.
    """
    before = positions(snapshot_ids, incomplete_ids)
    for sequence, snapshot_id in enumerate(snapshot_ids):
        partly = [name for name, next_one in before.items() if next_one == sequence]
        glimpsed = observed.where(F.col("run_id").isin(partly)) if partly else None
        state = state.transform(advance(policy, observed.where(F.col("run_id") == snapshot_id), glimpsed))
    return state


def _find(
    spark: SparkSession, store: StateStore, request: HistoryRequest, policy: StalenessPolicy, *, with_state: bool = True
) -> tuple[History, StateManifest | None, str]:
    """Select the snapshots to read: only those after a usable state, or all with the reason why there is none."""
    chosen: list[StateManifest] = []
    why = ""

    def choose(listed: Sequence[str], judged: str) -> str | None:
        nonlocal why
        found = store.find(listed, judged, policy)
        if isinstance(found, str):
            why = found
        elif sum(name > found.snapshot_id for name in listed) > _MOST_STEPS:
            why = f"there are more than {_MOST_STEPS} new snapshots"
        else:
            chosen.append(found)
            return found.snapshot_id
        return None

    history = find_history(
        spark,
        request.base,
        request.cluster,
        snapshot_id=request.snapshot_id,
        max_snapshots=request.max_snapshots,
        max_days=request.max_days,
        after=choose if with_state and request.mode == "incremental" else None,
    )
    return history, chosen[0] if chosen else None, why


def _check(
    store: StateStore,
    state: DataFrame,
    observed: DataFrame,
    history: History,
    policy: StalenessPolicy,
    found: StateManifest | str,
) -> str:
    """Update the stored state, and compare it with the one from the complete history."""
    if isinstance(found, str):
        return f"nothing to compare with: {found}"
    if found.first_snapshot != history.snapshot_ids[0] or found.snapshot_id not in history.snapshot_ids:
        return f"nothing to compare with: the state was made of other snapshots ({found.first_snapshot} and later)"
    newer, partly = (
        [name for name in ids if name > found.snapshot_id] for ids in (history.snapshot_ids, history.incomplete_ids)
    )
    different = differences(state, carry(store.read(found), observed, newer, policy, partly))
    if different:
        store.remove(found.snapshot_id)
        raise JobError(
            f"the state of {found.snapshot_id} carried on and the whole history give different results, for example "
            f"for group(s) {', '.join(different)}. Nothing was judged. That state was removed; please report this"
        )
    return ""
