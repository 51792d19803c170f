"""The manifest of a snapshot: written last, so that its presence means that the snapshot is complete on storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from airflow_kafka_groups.storage.formats import FORMAT, check_format, plain, read_model


class SnapshotFile(NamedTuple):
    """What vouches for a file of a snapshot, or a table beside it.

    No group has rows in two files of a snapshot, and each begins where the one before ends.
    """

    name: str
    rows: int
    sha256: str


CLOCKS_MAY_DIFFER = 300.0
"""Seconds by which the clocks of machines may differ without consequences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClocks:
    """How the brokers' clocks compared with those of the machines that took snapshots.

    :param at: a time before which no record was written that is behind the ``ends`` of the log of commits.
    :param compared: how many of its partitions told their broker's time: what was committed since the snapshot before.
    :param seconds: the largest difference that was found.
    :param off_at: when a difference of more than five minutes was found last, by this snapshot or one before it;
        ``None``: never. ``off_seconds`` has the largest one, and ``off_ahead`` whether the broker's clock was ahead.
    """

    at: datetime
    ends: Mapping[str, int]
    compared: int
    seconds: int
    off_at: datetime | None = None
    off_seconds: int = 0
    off_ahead: bool = False

    def why_off(self, since: datetime) -> str:
        """Return a sentence if a difference of more than five minutes was found since a time, and nothing otherwise."""
        if self.off_at is None or self.off_at < since:
            return ""
        return (
            f"a broker's clock was {self.off_seconds:,} s {'ahead of' if self.off_ahead else 'behind'} that of the "
            f"machine that took a snapshot, at {self.off_at.isoformat()}: synchronize the clocks (NTP)"
        )


def has_patterns(scope: Mapping[str, Any]) -> bool:
    """Return whether a snapshot of this scope chose groups by patterns."""
    return bool(scope.get("exclude")) or list(scope.get("include", ())) != ["*"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """What vouches for the files of one snapshot.

    :param airflow_dag: the DAG whose run took it: who may read that DAG may see it. ``None`` for a command line.
    :param complete: whether every broker answered the listing; ``missing_brokers`` has those that did not.
    :param sees_all_topics: whether the user may describe all topics: brokers leave out the offsets of the others.
    :param scope: the patterns, and ``group_ids`` for a snapshot of named groups only.
    :param files: the files of its rows, sorted by group.
    :param offsets_retention_minutes: the smallest ``offsets.retention.minutes`` of the brokers; ``None`` if it is not
        known of each.
    :param view: what the connection saw of the cluster (``observe/cluster_view.py``): a plan takes it over.
    :param clocks: how the brokers' clocks compared with this machine's; ``None`` if nobody looked.
    :param members: the table of members.
    :param subscriptions: the table of subscriptions.
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
    files: tuple[SnapshotFile, ...]
    members: SnapshotFile
    subscriptions: SnapshotFile
    offsets_retention_minutes: int | None = None
    view: Mapping[str, Any] | None = None
    clocks: BrokerClocks | None = None
    airflow_dag: str | None = None

    @property
    def of_named_groups(self) -> bool:
        """Whether only named groups were looked for: it shows nothing of all others."""
        return "group_ids" in self.scope

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as docs/formats.md shows it."""
        return {"format": FORMAT, **plain(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotManifest:
        """Read a manifest and check that it agrees with itself.

        Raises ``UnknownFormatError`` for a version that this package does not read, and ``ValueError``, ``TypeError``,
        ``KeyError`` or ``AttributeError`` for whatever is missing or wrong.
        """
        check_format(data)
        manifest = read_model(cls, data)
        manifest._check()
        return manifest

    def _check(self) -> None:
        names = [file.name for file in self.files]
        if len(set(names)) != len(names) or any("/" in name or not name.strip(".") for name in names):
            raise ValueError("the names of its files are not plain and different from each other")
        if (rows := sum(file.rows for file in self.files)) != self.rows:
            raise ValueError(f"its files have {rows} rows by their own count, {self.rows} in all")
        if self.complete and self.missing_brokers:
            raise ValueError("it calls itself complete and names missing brokers")
