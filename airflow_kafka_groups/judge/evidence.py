"""What a judgement rests on: the history of snapshots alone, or the log of commits too.

A consumer without membership that commits the same offset again and again looks dead in every snapshot. Only the log of
commits (``__consumer_offsets``) shows it. So a judgement names whether that log was read, and until when: it proves
nothing of the time after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_groups.storage.formats import plain, read_model
from airflow_kafka_groups.storage.manifest import SnapshotManifest

AUTO, OFF, REQUIRED = "auto", "off", "required"
COMMIT_LOG_MODES = (AUTO, OFF, REQUIRED)
"""Read the log of commits where that is possible, never, or fail where it is not."""

NOT_REPORTED = "the job did not report it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of a judgement, besides the history of snapshots.

    :param commits_until: until when the log of commits was read; ``None``: it was not read, or not completely.
    :param commits_since: from when on it was read; ``None``: from its beginning.
    :param not_read: why it was not read; empty if it was.
    """

    commits_until: datetime | None = None
    commits_since: datetime | None = None
    not_read: str = ""

    def gap(self, snapshot: SnapshotManifest, idle_seconds: float) -> str:
        """Return what the log of commits does not show of the idle times of a snapshot's groups; empty: nothing.

        :param idle_seconds: the idle time that a stale group must have.
        """
        if self.commits_until is None:
            return f"the log of commits was not read: {self.not_read or NOT_REPORTED}"
        if self.commits_until < snapshot.observed_at:
            return f"the log of commits was read until {_shown(self.commits_until)} only, before the snapshot ended"
        needed_since = snapshot.started_at - timedelta(seconds=idle_seconds)
        if self.commits_since is not None and self.commits_since > needed_since:
            return f"the log of commits was read from {_shown(self.commits_since)} on only, less than the idle time"
        # A commit of today may have the time of last week.
        return "" if snapshot.clocks is None else snapshot.clocks.why_off(needed_since)

    def sentence(self, snapshot: SnapshotManifest, idle_seconds: float) -> str:
        """Return the evidence in words, as the object of "judged by"."""
        if gap := self.gap(snapshot, idle_seconds):
            return f"the history of snapshots only; {gap}"
        until = "" if self.commits_until is None else f" until {_shown(self.commits_until)}"
        return f"the history of snapshots and the log of commits{until}"

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as docs/formats.md shows it."""
        return dict(plain(self))

    @classmethod
    def from_json(cls, data: object) -> Evidence:
        """Parse the result of ``to_json()``; anything else is no evidence."""
        if not isinstance(data, Mapping):
            return cls(not_read=NOT_REPORTED)
        try:
            return read_model(cls, data)
        except (AttributeError, TypeError, ValueError):
            return cls(not_read="the times between which it was read are not times")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommits:
    """When groups committed last, when a member joined or left last, and what that is worth as evidence.

    :param rows: ``group_id``, ``last_commit_at`` and ``last_record_at`` of groups, as a DataFrame; ``None``: not known.
    :param warnings: what may be missing.
    """

    rows: Any = None
    evidence: Evidence
    summary: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def recorded_sentence(evidence: Mapping[str, Any] | None) -> str:
    """Return what a plan says that its judgement rests on; that of groups that were named says nothing.

    :param evidence: the plan's ``evidence``.
    """
    return str((evidence or {}).get("sentence") or "evidence that was not recorded")


def _shown(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
