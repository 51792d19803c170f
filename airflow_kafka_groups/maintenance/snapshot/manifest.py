"""The manifest of a snapshot: written last, so that its presence says "whole"; and what a caller is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.maintenance.storage import FORMAT, StoragePath, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """Vouch for the files of one snapshot.

    ``complete`` is whether every broker answered the listing; ``sees_all_topics`` whether its user may describe topics
    in general (brokers leave the others out of committed offsets without a word); ``scope`` holds the patterns (and
    ``group_ids`` for a snapshot of named groups only).
    """

    snapshot_id: str
    cluster: str
    kafka_cluster_id: str | None
    started_at: datetime
    observed_at: datetime
    airflow_run: str
    complete: bool
    missing_brokers: Mapping[str, str]
    sees_all_topics: bool
    groups: int
    failed_groups: int
    rows: int
    scope: Mapping[str, Any]
    files: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        """Give the manifest as docs/formats.md shows it."""
        return {
            "format": FORMAT,
            "snapshot_id": self.snapshot_id,
            "cluster": self.cluster,
            "kafka_cluster_id": self.kafka_cluster_id,
            "started_at": self.started_at.isoformat(),
            "observed_at": self.observed_at.isoformat(),
            "airflow_run": self.airflow_run,
            "complete": self.complete,
            "missing_brokers": dict(self.missing_brokers),
            "sees_all_topics": self.sees_all_topics,
            "groups": self.groups,
            "failed_groups": self.failed_groups,
            "rows": self.rows,
            "scope": dict(self.scope),
            "files": [{"name": name, "rows": rows} for name, rows in self.files],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], path: StoragePath) -> SnapshotManifest:
        """Read a manifest; raises ``SnapshotError`` when a part is missing or of the wrong kind."""
        try:
            manifest = cls(
                snapshot_id=_typed(data, "snapshot_id", str),
                cluster=_typed(data, "cluster", str),
                kafka_cluster_id=_typed(data, "kafka_cluster_id", str, type(None)),
                started_at=parse_time(data["started_at"]),
                observed_at=parse_time(data["observed_at"]),
                airflow_run=_typed(data, "airflow_run", str),
                complete=_typed(data, "complete", bool),
                missing_brokers=dict(data["missing_brokers"]),
                # An older snapshot did not ask: not known is not yes.
                sees_all_topics="sees_all_topics" in data and _typed(data, "sees_all_topics", bool),
                groups=_typed(data, "groups", int),
                failed_groups=_typed(data, "failed_groups", int),
                rows=_typed(data, "rows", int),
                scope=dict(data["scope"]),
                files=tuple((_typed(file, "name", str), _typed(file, "rows", int)) for file in data["files"]),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise SnapshotError(f"the manifest {path} is damaged: {type(exc).__name__}: {exc}") from exc
        if manifest.complete and manifest.missing_brokers:
            raise SnapshotError(f"the manifest {path} calls itself complete and names missing brokers")
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummary:
    """Say what a snapshot holds: small enough for XCom by ``to_json()``.

    :param coordinators: how many groups each broker coordinates.
    :param not_found: the ids asked for by name that do not exist.
    :param failed: the groups that could not be read, with the reason; the first hundred.
    """

    snapshot_id: str
    cluster: str
    kafka_cluster_id: str | None
    manifest: str
    data: str
    complete: bool
    missing_brokers: Mapping[str, str]
    sees_all_topics: bool
    groups: int
    failed_groups: int
    rows: int
    partitions: int
    partitions_without_ends: int
    states: Mapping[str, int]
    types: Mapping[str, int]
    coordinators: Mapping[str, int]
    seconds: float
    not_found: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _typed(data: Mapping[str, Any], key: str, *kinds: type) -> Any:
    value = data[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"{key!r} is {value!r}")
    return value
