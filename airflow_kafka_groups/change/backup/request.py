"""Back up the groups of a plan, or named ones: from the request of an operator or of a command to the backup."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan, backup_named
from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """Back up committed offsets. Raises ``ConfigurationError`` for invalid values.

    :param plan_id: the plan whose groups are backed up, with ``plan_digest``; another plan is refused.
    :param group_ids: without a plan: the groups.
    :param groups: without both: the patterns of the groups. Default: all.
    """

    plan_id: str | None = None
    plan_digest: str | None = None
    group_ids: Sequence[str] | None = None
    groups: GroupFilter = field(default_factory=GroupFilter)

    def __post_init__(self) -> None:
        if (self.plan_id is None) != (self.plan_digest is None):
            raise ConfigurationError("plan_id, plan_digest", None, "give both or none")
        if self.plan_id is not None:
            check_digest("plan_digest", self.plan_digest)
        if sum((self.plan_id is not None, self.group_ids is not None, self.groups != GroupFilter())) > 1:
            raise ConfigurationError("backup", None, "give one of: a plan, group ids, or patterns")


async def back_up(
    admin: MaintenanceClient,
    layout: Layout,
    request: BackupRequest,
    *,
    protected: Sequence[str] = (),
    progress: Progress = ignore_progress,
) -> Backup:
    """Write the backup, and verify it by reading it back; see ``back_up_plan`` and ``backup_named``.

    :param protected: patterns of groups that may be refused, besides those of platform groups: that is no failure.
    """
    if request.plan_id is not None:
        plan = await asyncio.to_thread(load_plan, layout, request.plan_id)
        return await back_up_plan(admin, layout, plan, approved_digest=request.plan_digest, progress=progress)
    ids, groups = request.group_ids, request.groups
    return await backup_named(admin, layout, group_ids=ids, groups=groups, protected=protected, progress=progress)
