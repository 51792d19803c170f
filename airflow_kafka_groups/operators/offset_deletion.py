"""The operator that deletes a group's committed offsets of topics that it no longer reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_distinct_names
from airflow_kafka_groups.operators.support.base import DryRunOperator, first_failures
from airflow_kafka_groups.operators.support.tries import tries_of
from airflow_kafka_groups.storage.ids import topic_remedy

if TYPE_CHECKING:
    from airflow.sdk import Context


def read_topics(field: str, value: Any) -> list[str]:
    """Read exact names of topics, without duplicates; the list must not be empty."""
    topics = read_distinct_names(field, value)
    for topic in topics:
        if remedy := topic_remedy(topic):
            raise ConfigurationError(field, topic, remedy)
    return topics


class DeleteGroupOffsetsOperator(DryRunOperator):
    """Delete groups' committed offsets of some topics (KIP-496); the groups are kept.

    A group may have members: one of which a member is subscribed to one of the topics, or was assigned a partition of
    it, is kept, and the task fails, also in a dry run. The deleted offsets are written to ``changes/`` first. A retry,
    or the task cleared, keeps a group that has committed offsets of these topics since an earlier try, and fails.

    :param group_ids: the groups; duplicates are ignored (templated).
    :param topics: the topics, by their exact names (templated).

    Returns ``{"dry_run", "groups": {group: partitions}, "partitions", "record_path"}``, with the first 20 groups. Fails
    before anything is deleted if a group cannot be read or is protected, and afterwards if a deletion failed: a group
    whose offsets of these topics moved since they were recorded is kept.
    """

    ui_color = "#f0d4d4"

    group_ids = Argument(read_distinct_names)
    topics = Argument(read_topics)

    @sets_arguments
    def __init__(self, *, group_ids: Sequence[str] | str, topics: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Read, record and delete the offsets with one client."""
        from airflow_kafka_groups.change.restore.forget import forget_topics

        dry_run, group_ids, topics = self.dry_run, self.group_ids, frozenset(self.topics)
        layout = self.site_layout()
        settings = self.hook.settings
        self.require_writable()
        protected: dict[str, KafkaGroupsError] = {
            group_id: settings.protected_error(group_id) for group_id in group_ids if settings.protects(group_id)
        }
        if protected:
            raise GroupsFailedError(protected, len(group_ids))
        earlier, facts = tries_of(context, layout)
        progress = partial(self.log_progress, "delete offsets")
        found, path = self.hook.run(
            lambda admin: forget_topics(
                admin, layout, group_ids, topics, dry_run=dry_run, progress=progress, earlier=earlier, facts=facts
            )
        )
        partitions = sum(found.values())
        self.log.info("%s: %d partitions of %d groups", "Dry run" if dry_run else "Deleted", partitions, len(found))
        return {
            "dry_run": dry_run,
            "groups": {group_id: int(count) for group_id, count in first_failures(found).items()},
            "partitions": partitions,
            "record_path": None if path is None else str(path),
        }
