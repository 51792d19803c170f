"""The judgement of a cluster: its state from the observations of its snapshots, and the verdicts on storage.

The verdicts' counts come from the write and the files' footers, not from a read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.contracts.paths import is_data_file
from airflow_kafka_groups.contracts.verdicts import VerdictName
from airflow_kafka_groups.spark.job_files import JobFiles
from airflow_kafka_groups.spark.ledger.catalogue import CatalogueTable
from airflow_kafka_groups.spark.ledger.snapshots import Extent, History
from airflow_kafka_groups.spark.preflight import FEW_ROWS, fit_plans, in_tasks
from airflow_kafka_groups.spark.session import exact_timestamps
from airflow_kafka_groups.spark.staleness.observation_store import ObservationManifest, ObservationStore
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.transforms import replay
from airflow_kafka_groups.spark.storage import Storage

_GROUPS_PER_FILE = 500_000
_LONG_HISTORY = 24
"""The number of observations of each group from which reading them twice takes less time than sorting them all."""
_MAX_BROADCAST = 200_000
"""The number of groups whose newest observations go to each executor."""
_NAMES = [name.value for name in VerdictName]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """A state, and what it was computed from.

    :param state: one row for each group of the judged snapshot.
    :param extent: the groups of the judged snapshot, and the times of all observations in complete snapshots.
    :param stored: the observations of all snapshots, by id.
    :param reduced: the number of snapshots whose rows were read, because they had no observations that could be used.
    :param observed_from: when the observations of each complete snapshot begin.
    :param few: whether there are at most ``FEW_ROWS`` observations.
    """

    state: DataFrame
    extent: Extent
    stored: Mapping[str, ObservationManifest]
    store: ObservationStore
    reduced: int
    observed_from: Sequence[datetime]
    few: bool

    def add_to(self, table: CatalogueTable, cluster: str) -> None:
        """Write the observations that a table lacks, such as those of a killed run."""
        there = table.counts(cluster)
        lacking = {name: each for name, each in self.stored.items() if there.get(name, 0) != each.groups}
        if lacking:
            rows = self.store.read(lacking.values()).withColumn("snapshot_id", F.col("run_id"))
            table.replace(cluster, rows, {name: each.groups for name, each in lacking.items()})


def judged_history(spark: SparkSession, history: History, policy: StalenessPolicy) -> JudgedHistory:
    """Reduce the snapshots that no job has reduced yet, and return the state of the groups.

    Raises ``SnapshotError`` for a snapshot that cannot be used, and ``StorageError``.
    """
    store = ObservationStore(spark, history.folder)
    stored, reduced = store.complete(history)
    count = sum(manifest.groups for manifest in stored.values())
    fit_plans(spark, count)
    extents = {name: _extent([manifest]) for name, manifest in stored.items()}
    groups = extents[history.judged.snapshot_id].groups
    # Elsewhere than on local disks, opening thousands of small files twice would take longer than sorting.
    selects = store.is_local and count > FEW_ROWS and groups <= min(_MAX_BROADCAST, count // _LONG_HISTORY)

    def read(snapshot_ids: Sequence[str]) -> DataFrame:
        return in_tasks(store.read(stored[name] for name in snapshot_ids), count)

    return JudgedHistory(
        state=replay(read, policy, history.snapshot_ids, history.incomplete_ids, extents if selects else None),
        extent=_extent([stored[name] for name in history.snapshot_ids]),
        stored=stored,
        store=store,
        reduced=reduced,
        observed_from=[parse_time(oldest) for name in history.snapshot_ids if (oldest := stored[name].oldest)],
        few=count <= FEW_ROWS,
    )


def _extent(stored: Sequence[ObservationManifest]) -> Extent:
    return Extent(
        groups=stored[-1].groups,
        oldest=min((each.oldest for each in stored if each.oldest), default=None),
        newest=max((each.newest for each in stored if each.newest), default=None),
    )


def write_verdicts(
    verdicts: DataFrame, output: str, groups: int, *, few: bool
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Write verdicts sorted by group, and return ``groups`` and ``lag`` by verdict, and the names of the files.

    :param output: the folder, which is replaced.
    :param groups: the approximate number of groups.
    :param few: whether one task computes them all, so that another shuffle would only take time.

    Raises ``JobError`` if the folder has files of another job.
    """
    own = JobFiles()
    parts = 1 + groups // _GROUPS_PER_FILE
    if parts > 1:
        spread = verdicts.repartitionByRange(parts, "group_id")
    else:
        spread = verdicts.coalesce(1) if few else verdicts.repartition(1)
    # Observed after the last shuffle, where Spark counts each task once, even if it is repeated.
    counts = Observation()
    observed = spread.observe(counts, *(count for name in _NAMES for count in _counts(name)))
    with exact_timestamps(verdicts.sparkSession):
        own.named(observed.sortWithinPartitions("group_id").write).mode("overwrite").parquet(output)
    found = counts.get
    files = [name for name in Storage(verdicts.sparkSession, output).files(output) if is_data_file(name)]
    own.require_own(output, files, "judged")
    return {name: {"groups": found[f"{name}_groups"], "lag": found[f"{name}_lag"] or 0} for name in _NAMES}, files


def rows_on_storage(spark: SparkSession, folder: str) -> int:
    """Return the number of rows of the Parquet files in a folder from their footers, without a Spark job."""
    storage = Storage(spark, folder)
    return storage.count_rows(f"{folder}/{name}" for name in storage.files(folder) if is_data_file(name))


def _counts(name: str) -> tuple[Column, Column]:
    of_it = F.col("verdict") == name
    return F.count_if(of_it).alias(f"{name}_groups"), F.sum(F.when(of_it, F.col("lag"))).alias(f"{name}_lag")
