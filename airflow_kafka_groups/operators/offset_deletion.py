"""The operator that deletes a group's committed offsets of topics that it no longer reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import GroupsFailedError, KafkaGroupsError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_group_ids
from airflow_kafka_groups.operators.support.base import DryRunOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.admin import AdminClient


class DeleteGroupOffsetsOperator(DryRunOperator):
    """Delete groups' committed offsets of some topics (KIP-496); the groups are kept.

    A group may have members: the broker refuses a topic that one of them is subscribed to. The deleted offsets are
    written to ``changes/`` first.

    :param group_ids: the groups; duplicates are ignored (templated).
    :param topics: the topics, by their exact names (templated).

    Returns ``{"dry_run", "groups": {group: partitions}, "partitions", "record_path"}``, with the first 20 groups. Fails
    before anything is deleted if a group cannot be read or is protected, and afterwards if a deletion failed: a group
    whose offsets of these topics moved since they were recorded is kept.
    """

    ui_color = "#f0d4d4"

    group_ids = Argument(read_group_ids)
    topics = Argument(read_group_ids)

    @sets_arguments
    def __init__(self, *, group_ids: Sequence[str] | str, topics: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Read, record and delete the offsets with one client."""
        from airflow_kafka_groups.contracts.formats import FORMAT
        from airflow_kafka_groups.contracts.ids import new_id
        from airflow_kafka_groups.contracts.paths import CHANGES
        from airflow_kafka_groups.maintenance.durable_files import sync_file
        from airflow_kafka_groups.maintenance.protocols import committed_of
        from airflow_kafka_groups.maintenance.restore.changes import Change, commits_in
        from airflow_kafka_groups.maintenance.restore.forget import forget_offsets
        from airflow_kafka_groups.maintenance.storage import utc_now, write_json

        dry_run, group_ids, topics = self.dry_run, self.group_ids, frozenset(self.topics)
        layout = self.site_layout()
        settings = self.hook.settings
        self.require_writable()
        protected: dict[str, KafkaGroupsError] = {
            group_id: settings.protected_error(group_id) for group_id in group_ids if settings.protects(group_id)
        }
        if protected:
            raise GroupsFailedError(protected, len(group_ids))
        run_id = new_id(utc_now())
        path = str(layout.root / CHANGES / f"{run_id}-before.json")

        async def delete(admin: AdminClient) -> dict[str, int]:
            read = await committed_of(admin, group_ids)
            unread = {group_id: result.error for group_id, result in read.items() if result.error is not None}
            if unread:
                raise GroupsFailedError(unread, len(group_ids))
            before = {
                group_id: {where: v for where, v in commits_in(result.unwrap()).items() if where.topic in topics}
                for group_id, result in read.items()
            }
            before = {group_id: commits for group_id, commits in before.items() if commits}
            if dry_run or not before:
                return {group_id: len(commits) for group_id, commits in before.items()}
            changes = [Change(group_id=group_id, before=commits).to_json() for group_id, commits in before.items()]
            head = {"format": FORMAT, "run_id": run_id, "what": "delete offsets", "cluster": layout.cluster}
            record = {**head, "dry_run": False, "groups": changes}
            sync_file(write_json(layout.root / CHANGES, f"{run_id}-before.json", record))
            if failed := await forget_offsets(admin, before, partial(self.log_progress, "delete offsets")):
                raise GroupsFailedError(failed, len(before))
            return {group_id: len(commits) for group_id, commits in before.items()}

        found = self.hook.run(delete)
        partitions = sum(found.values())
        self.log.info("%s: %d partitions of %d groups", "Dry run" if dry_run else "Deleted", partitions, len(found))
        return {
            "dry_run": dry_run,
            "groups": {group_id: int(count) for group_id, count in first_failures(found).items()},
            "partitions": partitions,
            "record_path": None if dry_run or not found else path,
        }
