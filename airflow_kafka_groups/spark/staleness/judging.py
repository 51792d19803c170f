"""The state to be judged, from the observations of a cluster's snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark.ledger.snapshots import Extent, History, find_history
from airflow_kafka_groups.spark.preflight import fit_plans
from airflow_kafka_groups.spark.staleness.observation_store import ObservationManifest, ObservationStore
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.transforms import replay


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """The history to judge.

    :param base: folder with one folder per cluster.
    :param cluster: name of the cluster.
    :param snapshot_id: the snapshot to judge. Default: the newest.
    :param max_snapshots: maximum number of complete snapshots.
    :param max_days: maximum age of snapshots in days before the judged one; 0: no limit.
    """

    base: str
    cluster: str
    snapshot_id: str | None = None
    max_snapshots: int = 5000
    max_days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """A state, and what it was computed from.

    :param state: one row for each group of the judged snapshot.
    :param history: the snapshots.
    :param extent: the groups of the judged snapshot, and the times of all observations in complete snapshots.
    :param observations: the number of all observations.
    :param reduced: the number of snapshots whose rows were read, because they had no observations that could be used.
    """

    state: DataFrame
    history: History
    extent: Extent
    observations: int
    reduced: int


def judged_history(spark: SparkSession, request: HistoryRequest, policy: StalenessPolicy) -> JudgedHistory:
    """Find the snapshots, reduce those that no job has reduced yet, and return the state of the groups.

    :param spark: the session.
    :param request: the history.
    :param policy: the staleness policy.

    Raises ``SnapshotError`` for a snapshot that cannot be used, and ``StorageError``.
    """
    history = find_history(
        spark,
        request.base,
        request.cluster,
        snapshot_id=request.snapshot_id,
        max_snapshots=request.max_snapshots,
        max_days=request.max_days,
    )
    store = ObservationStore(spark, history.folder)
    stored, reduced = store.complete(history)
    observations = sum(manifest.groups for manifest in stored.values())
    fit_plans(spark, observations)

    def read(snapshot_ids: Sequence[str]) -> DataFrame:
        return store.read(stored[name] for name in snapshot_ids)

    return JudgedHistory(
        state=replay(read, policy, history.snapshot_ids, history.incomplete_ids),
        history=history,
        extent=_extent([stored[name] for name in history.snapshot_ids]),
        observations=observations,
        reduced=reduced,
    )


def _extent(stored: Sequence[ObservationManifest]) -> Extent:
    return Extent(
        groups=stored[-1].groups,
        oldest=min((each.oldest for each in stored if each.oldest), default=None),
        newest=max((each.newest for each in stored if each.newest), default=None),
    )
