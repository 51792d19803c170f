"""The summary of a snapshot that was taken, for the operator that asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummary:
    """What a snapshot holds; ``to_json()`` is small enough for XCom.

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
    not_found: tuple[str, ...]
    failed: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "not_found": list(self.not_found)}
