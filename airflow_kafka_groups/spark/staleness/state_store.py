"""The stored state of a history, so that the next snapshot is judged without reading the history again.

``state/<snapshot_id>/`` has one row for each group of that snapshot, and ``state/<snapshot_id>.json``, written last,
describes what it was computed from. A state is used only if everything matches: the Kafka cluster, the parts of the
policy that affect it, the list of older snapshots, and its rows. Otherwise the history is read again, and the reason is
reported: a state saves time and never decides alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.formats import STATE_FORMAT
from airflow_kafka_groups.contracts.ids import is_id
from airflow_kafka_groups.contracts.paths import STATE
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, JobError, StorageError, first_line
from airflow_kafka_groups.spark.ledger.snapshots import History
from airflow_kafka_groups.spark.schemas import STATE_SCHEMA
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.storage import Storage

_KEPT = 2
"""The number of states to keep: the newest, and the previous one for a repeated run."""


class StateError(JobError):
    """A stored state is not usable; the history is read instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateManifest:
    """The description of a state.

    :param snapshot_id: the newest snapshot in it.
    :param max_gap_micros: the longest gap between consecutive observations; 0 for no limit.
    :param first_snapshot: the oldest snapshot in it.
    :param snapshots: the number of complete snapshots in it.
    :param oldest_observation: ISO 8601, or null for a history without groups.
    :param listed: digest of the names of all manifests up to ``snapshot_id``, complete or not.
    :param groups: the number of rows.
    :param checksum: checksum of the rows, independent of their order.
    """

    snapshot_id: str
    cluster: str
    kafka_cluster_id: str | None
    max_gap_micros: int
    first_snapshot: str
    snapshots: int
    oldest_observation: str | None
    listed: str
    groups: int
    checksum: int
    format: int = STATE_FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedState:
    """The rows of a state on storage, without a manifest yet.

    :param rows: the stored rows.
    :param groups: their number.
    :param checksum: their checksum, independent of their order.
    """

    rows: DataFrame
    groups: int
    checksum: int


def digest_of(ids: Sequence[str]) -> str:
    """Return a digest of snapshot ids, independent of their order.

    :param ids: names of manifests without their ending.
    """
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


class StateStore:
    """The states of one cluster.

    :param spark: the session.
    :param folder: folder of the cluster.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._root = f"{folder}/{STATE}"
        self._storage = Storage(spark, folder)

    def find(self, listed: Sequence[str], judged: str, policy: StalenessPolicy) -> StateManifest | str:
        """Return the newest state before a snapshot, or the reason why none is usable.

        :param listed: ids of all existing manifests.
        :param judged: the snapshot to judge.
        :param policy: the policy that the state must have been computed with.
        """
        older = [name for name in self._ids() if name < judged]
        if not older:
            return "there is no state yet"
        newest = older[-1]
        try:
            found = StateManifest(**json.loads(self._storage.read_text(f"{self._root}/{newest}.json")))
        except (StorageError, ValueError, TypeError) as exc:
            return f"the state of {newest} cannot be used ({type(exc).__name__})"
        if found.format != STATE_FORMAT or found.snapshot_id != newest:
            return f"the state of {newest} has format {found.format!r}, this job reads {STATE_FORMAT}"
        if found.max_gap_micros != policy.max_gap_micros:
            return "--max-gap-seconds is not what the state was made with"
        if found.listed != digest_of([name for name in listed if name <= newest]):
            return f"the snapshots up to {newest} are not those that its state was made of"
        return found

    def read(self, manifest: StateManifest) -> DataFrame:
        """Read a state, and verify its rows.

        :param manifest: the result of ``find``.

        Raises ``StateError`` if they differ from what was written.
        """
        rows = self.rows(manifest)
        try:
            found = rows.agg(*_checksum(STATE_SCHEMA.names)).first()
        except SPARK_ERRORS as exc:
            raise StateError(f"the state of {manifest.snapshot_id} cannot be read: {first_line(exc)}") from exc
        _require_same(manifest, found.asDict() if found is not None else {})
        return rows

    def rows(self, manifest: StateManifest) -> DataFrame:
        """Return the rows of a state unverified: callers must call ``read`` before using the result.

        :param manifest: the result of ``find``.
        """
        return self._rows(manifest.snapshot_id)

    def stage(self, name: str, state: DataFrame) -> StagedState:
        """Write the rows of a state without its manifest: they are not used before ``finish``.

        :param name: id of the snapshot of the state.
        :param state: the rows.
        """
        self._storage.delete_file(f"{self._root}/{name}.json")
        # counted while writing; stored rows are verified when they are read
        counts = Observation()
        written = state.select(*STATE_SCHEMA.names).observe(counts, *_checksum(STATE_SCHEMA.names))
        written.write.mode("overwrite").parquet(f"{self._root}/{name}")
        found = counts.get
        return StagedState(rows=self._rows(name), groups=found["groups"], checksum=found["xor"])

    def finish(
        self,
        staged: StagedState,
        history: History,
        policy: StalenessPolicy,
        before: StateManifest | None,
        oldest: str | None,
    ) -> StateManifest:
        """Write the manifest of a staged state, which makes it usable, and remove older states.

        :param staged: the result of ``stage``.
        :param history: the snapshots that were read for it; the last one is the state's.
        :param policy: the policy that it was computed with.
        :param before: the state that was continued; ``None`` if the complete history was read.
        :param oldest: time of the oldest observation in ``history``.
        """
        name = history.judged.snapshot_id
        manifest = StateManifest(
            snapshot_id=name,
            cluster=history.judged.cluster,
            kafka_cluster_id=history.judged.kafka_cluster_id,
            max_gap_micros=policy.max_gap_micros,
            first_snapshot=before.first_snapshot if before else history.snapshot_ids[0],
            snapshots=len(history.snapshot_ids) + (before.snapshots if before else 0),
            oldest_observation=before.oldest_observation if before else oldest,
            listed=digest_of(history.listed),
            groups=staged.groups,
            checksum=staged.checksum,
        )
        self._storage.write_text(f"{self._root}/{name}.json", json.dumps(asdict(manifest), indent=1) + "\n")
        for old in [each for each in self._ids() if each <= name][:-_KEPT]:
            self.remove(old)
        return manifest

    def remove(self, name: str) -> None:
        """Remove a state, its manifest first.

        :param name: id of its snapshot.
        """
        self._storage.delete_file(f"{self._root}/{name}.json")
        for file in self._storage.files(f"{self._root}/{name}"):
            self._storage.delete_file(f"{self._root}/{name}/{file}")
        self._storage.delete_file(f"{self._root}/{name}")

    def _ids(self) -> list[str]:
        names = [name.removesuffix(".json") for name in self._storage.files(self._root) if name.endswith(".json")]
        return [name for name in names if is_id(name)]

    def _rows(self, name: str) -> DataFrame:
        return self._spark.read.schema(STATE_SCHEMA).parquet(f"{self._root}/{name}")


def _require_same(manifest: StateManifest, found: Mapping[str, int]) -> None:
    if (found.get("groups"), found.get("xor")) != (manifest.groups, manifest.checksum):
        raise StateError(f"the state of {manifest.snapshot_id} has other rows than were written")


def _checksum(names: Sequence[str]) -> tuple[Column, Column]:
    """Return the count and a checksum of rows, independent of their order."""
    return F.count("*").alias("groups"), F.coalesce(F.bit_xor(F.xxhash64(*names)), F.lit(0)).alias("xor")


def differences(left: DataFrame, right: DataFrame, shown: int = 5) -> list[str]:
    """Return groups in which two states differ, sorted; none if they are equal.

    :param left: a state.
    :param right: another one.
    :param shown: maximum number of groups.
    """
    hashed = [
        state.select("group_id", F.xxhash64(*STATE_SCHEMA.names).alias(name))
        for state, name in ((left, "left"), (right, "right"))
    ]
    both = hashed[0].join(hashed[1], "group_id", "full_outer").where(~F.col("left").eqNullSafe(F.col("right")))
    return [row["group_id"] for row in both.orderBy("group_id").limit(shown).collect()]
