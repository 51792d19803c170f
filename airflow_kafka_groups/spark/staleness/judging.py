"""Make the state to be judged: from the whole history, or from the state before it and what came since, or both ways.

``full`` reads every snapshot. ``incremental`` carries the stored state on, and reads the whole history only when that
state does not fit any more (``state_store.py`` says why). ``check`` does both and fails if they differ in any group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import JobError
from airflow_kafka_groups.spark.ledger.snapshots import Extent, History, check_rows, find_history, read_rows
from airflow_kafka_groups.spark.preflight import fit_shuffles
from airflow_kafka_groups.spark.staleness.advance import advance
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.state_store import StateManifest, StateStore, differences
from airflow_kafka_groups.spark.staleness.transforms import observations, replay

MODES = ("full", "incremental", "check")
_MOST_STEPS = 24
"""More new snapshots than this are read as a history: a plan of very many steps takes longer than it saves."""


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
    """

    state: DataFrame
    history: History
    before: StateManifest | None
    extent: Extent
    why_full: str = ""

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
    """Find and check the snapshots, and give the state; what is cached is freed afterwards.

    :param spark: the session.
    :param request: which history, and how.
    :param policy: what it takes to be stale.

    Raises ``SnapshotError`` for a snapshot that is not whole, ``JobError`` if a check finds a difference.
    """
    store = StateStore(spark, f"{request.base}/{request.cluster}")
    history, before, carried, why = _find(spark, store, request, policy)
    fit_shuffles(spark, sum(manifest.rows for manifest in history.manifests))
    observed = read_rows(spark, history).transform(observations()).persist(StorageLevel.MEMORY_AND_DISK)
    state: DataFrame | None = None
    try:
        extent = check_rows(observed, history)
        if before is not None and carried is not None:
            state = carry(carried, observed, history.snapshot_ids, policy)
        else:
            state = observed.transform(replay(policy, history.snapshot_ids))
        if request.mode != "full":
            state = state.persist(StorageLevel.MEMORY_AND_DISK)
        if request.mode == "check":
            why = _check(store, state, observed, history, policy)
        yield JudgedHistory(state=state, history=history, before=before, extent=extent, why_full=why)
    finally:
        observed.unpersist()
        if state is not None and request.mode != "full":
            state.unpersist()


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
    spark: SparkSession, store: StateStore, request: HistoryRequest, policy: StalenessPolicy
) -> tuple[History, StateManifest | None, DataFrame | None, str]:
    """Choose the snapshots to read: with a state that fits, only those after it."""
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

    def find(*, with_state: bool) -> History:
        return find_history(
            spark,
            request.base,
            request.cluster,
            snapshot_id=request.snapshot_id,
            max_snapshots=request.max_snapshots,
            max_days=request.max_days,
            after=choose if with_state else None,
        )

    history = find(with_state=request.mode == "incremental")
    if not chosen:
        return history, None, None, why
    try:
        if chosen[0].kafka_cluster_id != history.judged.kafka_cluster_id:
            raise JobError("the state is of another Kafka cluster")
        return history, chosen[0], store.read(chosen[0]), ""
    except JobError as exc:
        return find(with_state=False), None, None, str(exc)


def _check(store: StateStore, state: DataFrame, observed: DataFrame, history: History, policy: StalenessPolicy) -> str:
    """Carry the stored state on, and compare it with the one that the whole history gave."""
    found = store.find(history.listed, history.judged.snapshot_id, policy)
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
