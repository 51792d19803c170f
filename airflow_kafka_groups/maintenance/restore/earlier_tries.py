"""What earlier tries of the same task meant to set, from their records: a distance must not be moved twice.

Every try writes its record before it commits anything. A later one sets the same offsets: where they are committed
already, nothing is left to do, and what was not committed still is where it was. A group that is anywhere else was used
in between, and is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_groups.contracts.ids import is_id, time_of
from airflow_kafka_groups.contracts.paths import CHANGES
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.maintenance.durable_files import list_names
from airflow_kafka_groups.maintenance.json_files import read_json
from airflow_kafka_groups.maintenance.restore.changes import Commits, commits_from, is_same, name_of
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import OffsetAndMetadata, TopicPartition

TASK_RUN = "task_run"
"""The field of a record that all tries of a task have in common."""
SHIFT_BY = "shift_by"
_ENDING = "-before.json"


@dataclass(frozen=True, slots=True)
class Meant:
    """What the first try that changed a partition found there, and what it meant to set.

    :param record: the path of its record.
    """

    before: OffsetAndMetadata | None
    after: OffsetAndMetadata
    record: str


@dataclass(frozen=True, slots=True)
class EarlierTries:
    """What the earlier tries of a task meant to set. Default: nothing."""

    groups: Mapping[str, Mapping[TopicPartition, Meant]] = field(default_factory=dict)

    def target(self, group_id: str, where: TopicPartition) -> int | None:
        """Return the offset that an earlier try meant to set, ``None`` if none did."""
        meant = self.groups.get(group_id, {}).get(where)
        return None if meant is None else meant.after.offset

    def why_kept(self, group_id: str, now: Commits, topics: Collection[str] | None = None) -> str | None:
        """Return why a group must not be changed again, or ``None``.

        :param now: its committed offsets.
        :param topics: only these are to be changed; another task may have changed others, which are used since then.
            Default: all.
        """
        for where, meant in self.groups.get(group_id, {}).items():
            if topics is not None and where.topic not in topics:
                continue
            found = now.get(where)
            if found is None or not (is_same(found, meant.after) or is_same(found, meant.before)):
                at = "has no offset any more" if found is None else f"is at {found.offset}"
                return (
                    f"{name_of(where)} {at}: it was used since an earlier try of this task, by {meant.record}, meant "
                    f"to set it to {meant.after.offset}"
                )
        return None


def read_earlier_tries(layout: Layout, task_run: str, shift_by: int, since: datetime | None = None) -> EarlierTries:
    """Return what the earlier tries of a task run meant to set.

    :param task_run: names the task run: the same for each of its tries. Those of a mapped task differ in what follows
        the last slash, and a group may be another one's when what the task is mapped over was created again.
    :param shift_by: the distance of this try.
    :param since: only records of this time or later. Default: all.

    Raises ``MaintenanceError`` for a record that is damaged, or of another distance, and ``StorageError``.
    """
    groups: dict[str, dict[TopicPartition, Meant]] = {}
    for name in list_names(layout.root / CHANGES):
        run_id = name.removesuffix(_ENDING)
        if run_id == name or not is_id(run_id) or (since is not None and time_of(run_id) < since):
            continue
        path = layout.root / CHANGES / name
        record = read_json(path, "the record of a change", MaintenanceError)
        if not _is_of(record.get(TASK_RUN), task_run):
            continue
        if record.get(SHIFT_BY) != shift_by:
            if record[TASK_RUN] != task_run:
                continue
            raise MaintenanceError(
                f"an earlier try of this task began to move offsets by {record.get(SHIFT_BY)}, see {path}, and this "
                f"one would move them by {shift_by}. Start a new DAG run for another distance"
            )
        _add(groups, record, str(path))
    return EarlierTries(groups)


def _is_of(recorded: Any, task_run: str) -> bool:
    """Return whether a record is of a try of the task, or of another one of a mapped task."""
    task, slash, _ = task_run.rpartition("/")
    return recorded == task_run or bool(slash and isinstance(recorded, str) and recorded.rpartition("/")[0] == task)


def _add(groups: dict[str, dict[TopicPartition, Meant]], record: Mapping[str, Any], path: str) -> None:
    try:
        for group in record["groups"]:
            of_group = groups.setdefault(group["group_id"], {})
            before = commits_from(group["before"])
            if group["kept"] is None:
                for where, after in commits_from(group["after"]).items():
                    of_group.setdefault(where, Meant(before.get(where), after, path))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise MaintenanceError(f"the record of a change in {path} is damaged: {exc!r}") from exc
