"""Make the state to be judged: from the whole history, or from the state before it and what came since, or both ways.

``full`` reads every snapshot. ``incremental`` carries the stored state on, and reads the whole history only when that
state does not fit any more (``state_store.py`` says why). ``check`` does both and fails if they differ in any group.
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
from airflow_kafka_groups.spark.preflight import fit_shuffles
from airflow_kafka_groups.spark.staleness.advance import advance
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
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
"""More new snapshots than this are read as a history: a plan of very many steps takes longer than it saves."""
_FEW_ROWS = 1_000_000
"""Up to so many rows, what a run costs is Spark's own: jobs, plans and shuffles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """Say which history to judge, and how.

    :param base: folder with one folder for each cluster.
    :param cluster: name of the cluster.
    :param mode: one of ``MODES``.
    :param snapshot_id: the snapshot to judge; default the newest.
    :param max_snapshots: read at most so many complete snapshots where the history is read.
    :param max_days: read snapshots at most so many days older than the judged one, likewise; 0 is no limit.
    """

    base: str
    cluster: str
    mode: str = "full"
    snapshot_id: str | None = None
    max_snapshots: int = 1000
    max_days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """Be a state, and what it was made of.

    :param state: a row for each group of the judged snapshot.
    :param history: the snapshots that were read.
    :param before: the state that was carried on; none if the whole history was read.
    :param extent: groups of the judged snapshot, and times of what was read.
    :param why_full: why an incremental run read the whole history; empty if it did not.
    :param staged: the same state on storage, to be finished when the verdicts are written; none in the mode ``full``.
    """

    state: DataFrame
    history: History
    before: StateManifest | None
    extent: Extent
    why_full: str = ""
    staged: StagedState | None = None

    @property
    def snapshots(self) -> int:
        """Count the complete snapshots that this state was made of."""
        return len(self.history.manifests) + (self.before.snapshots if self.before else 0)

    @property
    def first_snapshot(self) -> str:
        """Give the oldest of them."""
        return self.before.first_snapshot if self.before else self.history.snapshot_ids[0]

    @property
    def oldest_observation(self) -> str | None:
        """Give the time of the oldest observation in them."""
        return self.before.oldest_observation if self.before else self.extent.oldest


@contextmanager
def judged_history(spark: SparkSession, request: HistoryRequest, policy: StalenessPolicy) -> Iterator[JudgedHistory]:
    """Find and check the snapshots, and give the state; free what is cached, or staged and not finished, afterwards.

    :param spark: the session.
    :param request: which history, and how.
    :param policy: what it takes to be stale.

    Raises ``SnapshotError`` for a snapshot that is not whole, ``JobError`` if a check finds a difference.
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
            with suppress(StorageError):  # what went wrong first is what people have to know
                store.remove(history.judged.snapshot_id)
        raise
    finally:
        for frame in cached:
            frame.unpersist()


def _carried(
    spark: SparkSession, store: StateStore, history: History, before: StateManifest, policy: StalenessPolicy
) -> JudgedHistory:
    """Carry a state on by the snapshots after it. Raises ``StateError`` if it cannot be used."""
    if before.kafka_cluster_id != history.judged.kafka_cluster_id:
        raise StateError("the state is of another Kafka cluster")
    _fit(spark, history, also=before.groups)
    if _is_small_step(spark, history, before):
        staged, extent = _carried_at_once(spark, store, history, before, policy)
        return JudgedHistory(state=staged.rows, history=history, before=before, extent=extent, staged=staged)
    observed = _observed(spark, history).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        extent = check_rows(observed, history)
        state = carry(store.read(before), observed, history.snapshot_ids, policy)
        staged = store.stage(history.judged.snapshot_id, state)
    finally:
        observed.unpersist()
    return JudgedHistory(state=staged.rows, history=history, before=before, extent=extent, staged=staged)


def _carried_at_once(
    spark: SparkSession, store: StateStore, history: History, before: StateManifest, policy: StalenessPolicy
) -> tuple[StagedState, Extent]:
    """Read the snapshot, check it, carry the state on and write it in one Spark job: a small step is the price of jobs.

    The state is checked meanwhile. That is a job of its own, but an idle core runs it while the driver plans the step,
    and it loads what the step needs next.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="check-state") as aside:
        state = aside.submit(store.read, before)
        observed = _observed(spark, history)
        watched, check_observed = watch_rows(observed, history)
        try:
            # Merged, because a broadcast is a job of its own.
            step = store.rows(before).hint("merge").transform(advance(policy, watched))
            staged = store.stage(history.judged.snapshot_id, step)
        except SPARK_ERRORS:
            state.result()  # says so, if it is the state that cannot be read
            check_rows(observed, history)  # says so, if it is the snapshot
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
    """Make the state from the whole history. What it caches is added to ``cached``."""
    _fit(spark, history)
    observed = _observed(spark, history).persist(StorageLevel.MEMORY_AND_DISK)
    cached.append(observed)
    extent = check_rows(observed, history)
    state = observed.transform(replay(policy, history.snapshot_ids))
    if request.mode == "full":
        return JudgedHistory(state=state, history=history, before=None, extent=extent)
    found = store.find(history.listed, history.judged.snapshot_id, policy) if request.mode == "check" else why
    staged = store.stage(history.judged.snapshot_id, state)
    if request.mode == "check":
        why = _check(store, staged.rows, observed, history, policy, found)
    return JudgedHistory(state=staged.rows, history=history, before=None, extent=extent, why_full=why, staged=staged)


def _fit(spark: SparkSession, history: History, also: int = 0) -> None:
    rows = sum(manifest.rows for manifest in history.manifests)
    fit_shuffles(spark, rows)
    fit_plans(spark, rows + also)


def _observed(spark: SparkSession, history: History) -> DataFrame:
    return read_rows(spark, history).transform(observations())


def fit_plans(spark: SparkSession, rows: int) -> None:
    """Plan few rows once, with one task a shuffle: to plan them anew after each costs more than it saves.

    What the user has set stays.

    :param spark: the session the job runs in.
    :param rows: rows that will be read.
    """
    few = rows <= _FEW_ROWS
    for name, value in (("spark.sql.adaptive.enabled", "false"), ("spark.sql.shuffle.partitions", "1")):
        if spark.sparkContext.getConf().contains(name):
            continue
        if few:
            spark.conf.set(name, value)
        elif name == "spark.sql.adaptive.enabled":
            spark.conf.unset(name)


def _is_small_step(spark: SparkSession, history: History, before: StateManifest) -> bool:
    """Say whether one job can do it all. A plan that adapts may drop an empty part with its counts, so it must not."""
    rows = history.judged.rows
    adaptive = str(spark.conf.get("spark.sql.adaptive.enabled")).lower() != "false"
    return len(history.manifests) == 1 and 0 < rows <= _FEW_ROWS and before.groups > 0 and not adaptive


def carry(state: DataFrame, observed: DataFrame, snapshot_ids: Sequence[str], policy: StalenessPolicy) -> DataFrame:
    """Carry a state on by each of these snapshots.

    :param state: the state before the first of them.
    :param observed: their observations.
    :param snapshot_ids: complete snapshots, oldest first.
    :param policy: what the state was made with.
    """
    for snapshot_id in snapshot_ids:
        state = state.transform(advance(policy, observed.where(F.col("run_id") == snapshot_id)))
    return state


def _find(
    spark: SparkSession, store: StateStore, request: HistoryRequest, policy: StalenessPolicy, *, with_state: bool = True
) -> tuple[History, StateManifest | None, str]:
    """Choose the snapshots to read: with a state that fits, only those after it; else the reason why there is none."""
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
    """Carry the stored state on, and compare it with the one that the whole history gave."""
    if isinstance(found, str):
        return f"nothing to compare with: {found}"
    if found.first_snapshot != history.snapshot_ids[0] or found.snapshot_id not in history.snapshot_ids:
        return f"nothing to compare with: the state was made of other snapshots ({found.first_snapshot} and later)"
    newer = [name for name in history.snapshot_ids if name > found.snapshot_id]
    different = differences(state, carry(store.read(found), observed, newer, policy))
    if different:
        store.remove(found.snapshot_id)
        raise JobError(
            f"the state of {found.snapshot_id} carried on and the whole history give different results, for example "
            f"for group(s) {', '.join(different)}. Nothing was judged. That state was removed; please report this"
        )
    return ""
