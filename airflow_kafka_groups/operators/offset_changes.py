"""Operators that change committed offsets: reset, alter, restore from a backup, or delete those of unread topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_distinct_names,
    read_flag,
    read_group_ids,
    read_integer,
    read_milliseconds,
    read_partition_offsets,
    read_switch,
    read_text,
)
from airflow_kafka_groups.operators.support.base import DryRunOperator, first_failures
from airflow_kafka_groups.operators.support.tries import tries_of
from airflow_kafka_groups.shown import one_line
from airflow_kafka_groups.storage.paths import topic_remedy

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeResult


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


class _OffsetChangeOperator(DryRunOperator):
    """The base class of offset changes: proposes, records the previous offsets, applies, records the results."""

    ui_color = "#f0e4d4"

    def change(
        self,
        what: str,
        propose: Callable[[GuardedAdminClient], Awaitable[list[Change]]],
        *,
        may_be_absent: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Run the steps in this order, and return the summary. Fails if a change failed or its outcome is unknown."""
        from airflow_kafka_groups.change.restore.recorded import change_recorded
        from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome

        dry_run = self.dry_run
        layout = self.site_layout()
        settings = self.hook.settings
        self.require_writable()
        recorded = self.hook.run(
            lambda admin: change_recorded(
                admin,
                layout,
                what,
                partial(propose, admin),
                protects=settings.protects,
                dry_run=dry_run,
                may_be_absent=may_be_absent,
                facts=facts,
                progress=self.log_progress,
            )
        )
        results, counts, path = recorded.results, recorded.counts, recorded.path
        self.log.info("%s: %s; recorded in %s", what, counts, path)
        failed = (ChangeOutcome.FAILED, ChangeOutcome.UNKNOWN)
        bad = {item.group_id: item.reason for item in results if item.outcome in failed}
        if not dry_run:  # the brokers may answer the next try
            unread = ((item.group_id, _why_unread(item)) for item in results if item.group_id not in bad)
            bad |= {group_id: why for group_id, why in unread if why is not None}
        if bad:
            raise GroupsFailedError({name: KafkaGroupsError(why) for name, why in bad.items()}, len(results))
        kept = {item.group_id: item.reason for item in results if item.outcome is ChangeOutcome.KEPT}
        skipped = {item.group_id: "; ".join(map(": ".join, item.skipped.items())) for item in results if item.skipped}
        for group_id, reason in first_failures(kept).items():
            self.log.warning("Kept: %s: %s", one_line(group_id), reason)
        return {
            "dry_run": dry_run,
            "counts": counts,
            "partitions": sum(item.partitions for item in results),
            "kept": first_failures(kept),
            "skipped": first_failures(skipped),
            "result_path": str(path),
        }


def _why_unread(result: ChangeResult) -> str | None:
    """Return why a group, or a part of it, is as it was, if something of it could not be read."""
    from airflow_kafka_groups.change.restore.current_logs import unread_of, unread_part
    from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome

    return unread_of([result.reason]) if result.outcome is ChangeOutcome.KEPT else unread_part(result.skipped)


class ResetGroupOffsetsOperator(_OffsetChangeOperator):
    """Reset the committed offsets of groups without members: to an end of the log, a time, or by a distance.

    Pass exactly one of ``to``, ``timestamp`` and ``shift_by``. Each offset is limited to its log. The previous offsets
    are written to ``changes/`` before anything is changed. A retry, or the task cleared, sets the offsets that the
    first try meant to set, and keeps groups that were used since.

    :param group_ids: the groups; duplicates are ignored (templated).
    :param topics: only these topics. Default: all topics with a commit (templated).
    :param to: ``"earliest"`` or ``"latest"`` (templated).
    :param timestamp: the first record at or after this time: ISO 8601 or a ``datetime``, with a zone, or milliseconds
        since 1970 (templated).
    :param shift_by: the number of records to move forward, or back if negative. A retry moves none twice (templated).

    Returns ``{"dry_run", "counts", "partitions", "kept", "skipped", "result_path"}``. A group that has members, does
    not exist, moves meanwhile or is protected is kept; a partition that does not exist is skipped. Fails if a change
    failed or cannot be verified, or if a group or a partition's log could not be read: the others are changed.
    """

    group_ids = Argument(read_distinct_names)
    topics = Argument(optional(read_topics))
    to = Argument(optional(one_of("earliest", "latest")))
    timestamp = Argument(optional(read_milliseconds))
    shift_by = Argument(optional(partial(read_integer, minimum=-(2**53))))

    @sets_arguments
    def __init__(
        self,
        *,
        group_ids: Sequence[str] | str,
        topics: Sequence[str] | str | None = None,
        to: str | None = None,
        timestamp: str | int | datetime | None = None,
        shift_by: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sum(value is not None for value in (to, timestamp, shift_by)) != 1:
            raise ConfigurationError("to, timestamp, shift_by", None, "pass exactly one of them")

    def execute(self, context: Context) -> dict[str, Any]:
        """Reset with one client."""
        from airflow_kafka_groups.change.restore.earlier_tries import SHIFT_BY, TARGET
        from airflow_kafka_groups.change.restore.reset import ResetTarget, propose_reset

        target = ResetTarget(to=self.to, timestamp_ms=self.timestamp, shift_by=self.shift_by)
        by = self.shift_by
        asked = {TARGET: self.timestamp if self.to is None else self.to} if by is None else {SHIFT_BY: by}
        earlier, facts = tries_of(context, self.site_layout(), asked)
        propose = partial(propose_reset, group_ids=self.group_ids, target=target, topics=self.topics, earlier=earlier)
        return self.change("reset", propose, facts=facts)


class AlterGroupOffsetsOperator(_OffsetChangeOperator):
    """Set the committed offsets of groups without members to given values, limited to each log.

    :param offsets: ``{group: {topic: {partition: offset}}}``; numbers may be strings, and all of it may be a JSON
        string (templated).
    :param create: also create groups that do not exist. Default false: they are kept.

    Results and failures are those of ``ResetGroupOffsetsOperator``.
    """

    offsets = Argument(read_partition_offsets)
    create = Argument(read_switch, templated=False)

    @sets_arguments
    def __init__(
        self,
        *,
        offsets: Mapping[str, Mapping[str, Mapping[int | str, int | str]]] | str,
        create: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Set the offsets with one client."""
        from airflow_kafka_groups.change.restore.earlier_tries import spare_used
        from airflow_kafka_groups.change.restore.reset import propose_alter

        earlier, facts = tries_of(context, self.site_layout())
        return self.change(
            "alter",
            lambda admin: spare_used(admin, propose_alter(admin, self.offsets), earlier),
            may_be_absent=self.create,
            facts=facts,
        )


class RestoreGroupOffsetsOperator(_OffsetChangeOperator):
    """Restore the offsets of a backup written by ``BackupGroupOffsetsOperator`` or by a deletion.

    :param plan_id: the plan of the backup (templated).
    :param group_ids: only these groups. Default, also for a template that renders to ``null``: all in the backup.
        Duplicates are ignored (templated).
    :param overwrite: also reset groups that have committed other offsets since; a retry, or the task cleared, keeps
        those that did after an earlier try had reset them. Default false (templated).

    Returns ``{"dry_run", "counts", "partitions", "kept", "skipped", "result_path"}``. A group that has members, or was
    used since the backup, is kept; a partition whose topic was deleted or recreated is skipped. Fails if the backup is
    damaged or of another cluster, if a group or a partition's log could not be read, with the others restored, and if
    an offset differs when read back.
    """

    plan_id = Argument(read_text)
    group_ids = Argument(lambda field, value: None if value in (None, "null") else read_group_ids(field, value))
    overwrite = Argument(read_flag)

    @sets_arguments
    def __init__(
        self,
        *,
        plan_id: str,
        group_ids: Sequence[str] | str | None = None,
        overwrite: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Restore with one client."""
        from airflow_kafka_groups.change.restore.earlier_tries import EarlierTries, spare_used
        from airflow_kafka_groups.change.restore.from_backup import propose_restore

        plan_id, group_ids, overwrite = self.plan_id, self.group_ids, self.overwrite
        layout = self.site_layout()
        # Without overwriting, what was used since the backup is kept anyway.
        earlier, facts = tries_of(context, layout) if overwrite else (lambda _: EarlierTries(), None)
        return self.change(
            "restore",
            lambda admin: spare_used(
                admin, propose_restore(admin, layout, plan_id, group_ids=group_ids, overwrite=overwrite), earlier
            ),
            may_be_absent=True,
            facts=facts,
        )
