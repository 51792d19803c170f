"""Operators that change committed offsets: reset, alter, restore from a backup, keep alive, or delete some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_distinct_names,
    read_duration,
    read_flag,
    read_group_ids,
    read_integer,
    read_milliseconds,
    read_names,
    read_pairs,
    read_partition_offsets,
    read_place,
    read_text,
    read_text_or_nothing,
    read_topics,
    request_of,
    require_one,
)
from airflow_kafka_groups.hooks.storage import open_path, read_offsets_file
from airflow_kafka_groups.operators.support.base import DryRunOperator, SelectingOperator, first_failures, tries_of
from airflow_kafka_groups.operators.support.spark_connection import SparkJob, read_spark_arguments

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_kafka_groups.change.keep_alive import KeepAliveReport
    from airflow_kafka_groups.change.restore.change_offsets import OffsetRequest, RecordedChanges
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.observe.mirrors.batches import OnSpark
    from airflow_kafka_groups.storage.layout import StoragePath


class _OffsetChangeOperator(DryRunOperator):
    """The base class of offset changes: proposes, records the previous offsets, applies, records the results."""

    ui_color = "#f0e4d4"
    verb: ClassVar[str]
    """The request of ``change.restore`` whose fields are arguments, unless ``request`` builds another one."""

    def request(self) -> OffsetRequest:
        module, _, name = self.verb.partition(".")
        requests = import_module(f"airflow_kafka_groups.change.restore.{module}")
        found: OffsetRequest = request_of(getattr(requests, name), self)
        return found

    def execute(self, context: Context) -> dict[str, Any]:
        return self.change(context, self.request())

    def change(self, context: Context, request: OffsetRequest) -> dict[str, Any]:
        """Change the offsets, and return the summary. Fails if a change failed or its outcome is unknown."""
        done: RecordedChanges = self.carry_out(request, tries_of(context))
        self.log.info("%s: %s; recorded in %s", type(self).__name__, done.counts, done.path)
        if failures := done.failures():
            raise GroupsFailedError(failures, len(done.results))
        skipped = {
            item.group_id: "; ".join(map(": ".join, item.skipped.items())) for item in done.results if item.skipped
        }
        kept = self.warn_of("Kept", done.kept())
        return {"dry_run": self.dry_run, **done.summary(), "kept": kept, "skipped": first_failures(skipped)}

    def place_inside(self, name: str) -> StoragePath:
        """Return the place of a file, an argument of this name. Raises ``ConfigurationError`` outside of the storage.

        The site may demand its storage, by the floor ``storage_path``.
        """
        place, storage = open_path(name, getattr(self, name)), open_path("storage_path", self.storage_path)
        self.floors().require_inside(str(place), str(storage))
        return place


def require_committed(summary: Mapping[str, Any]) -> None:
    """Raise ``GroupsFailedError`` for the group of a commit that was kept."""
    if kept := summary["kept"]:
        raise GroupsFailedError({id_: KafkaGroupsError(f"not committed: {why}") for id_, why in kept.items()}, 1)


class DeleteGroupOffsetsOperator(_OffsetChangeOperator):
    """Delete groups' committed offsets of some topics (KIP-496); the groups are kept.

    A group may have members: one of which a member is subscribed to one of the topics, or was assigned a partition of
    it, is kept, and the task fails, also in a dry run. The deleted offsets are written to ``changes/`` first. A retry,
    or the task cleared, keeps a group that has committed offsets of these topics since an earlier try, and fails.

    :param group_ids: the groups; duplicates are ignored.
    :param topics: the topics, by their exact names.

    Returns what ``ResetGroupOffsetsOperator`` does. Fails before anything is deleted if a group cannot be read or is
    protected, and afterwards if a deletion failed: a group whose offsets of these topics moved since they were recorded
    is kept.
    """

    ui_color = "#f0d4d4"
    verb = "forget.DeleteOffsetsRequest"

    group_ids = Argument(read_distinct_names)
    topics = Argument(read_topics)

    def __init__(self, *, group_ids: Sequence[str] | str, topics: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class ResetGroupOffsetsOperator(_OffsetChangeOperator):
    """Reset the committed offsets of groups without members: to an end of the log, a time, by a distance, or by a file.

    Pass exactly one of ``to``, ``timestamp``, ``ago``, ``shift_by`` and ``from_file``. Each offset is limited to its
    log. The previous offsets are written to ``changes/`` before anything is changed. A retry, or the task cleared, sets
    the offsets that the first try meant to set, and keeps groups that were used since.

    :param group_ids: the groups; duplicates are ignored. Required without ``from_file``, whose groups they select; a
        file without groups needs exactly one.
    :param topics: only these topics. Default: all topics with a commit.
    :param to: ``"earliest"`` or ``"latest"``.
    :param timestamp: the first record at or after this time: ISO 8601 or a ``datetime``, with a zone, or milliseconds
        since 1970.
    :param ago: the first record at or after the time so long before the task runs: a duration.
    :param shift_by: the number of records to move forward, or back if negative. A retry moves none twice.
    :param from_file: path or URL of a CSV file as ``kafka-consumer-groups --export`` writes it: lines
        ``topic,partition,offset``, or ``group,topic,partition,offset``.

    Returns ``{"dry_run", "counts", "partitions", "skips", "rereads", "kept", "skipped", "result_path"}``; ``skips`` and
    ``rereads`` are the most records that the groups will not read, or read again. A group that has members, does not
    exist, moves meanwhile or is protected is kept; a partition that does not exist is skipped. Fails if a change failed
    or cannot be verified, or if a group or a partition's log could not be read: the others are changed.
    """

    group_ids = Argument(optional(read_distinct_names))
    topics = Argument(optional(read_topics))
    to = Argument(optional(one_of("earliest", "latest")))
    timestamp = Argument(optional(read_milliseconds))
    ago = Argument(optional(read_duration))
    shift_by = Argument(optional(partial(read_integer, minimum=-(2**53))))
    from_file = Argument(optional(read_place))

    def __init__(
        self,
        *,
        group_ids: Sequence[str] | str | None = None,
        topics: Sequence[str] | str | None = None,
        to: str | None = None,
        timestamp: str | int | datetime | None = None,
        ago: str | float | timedelta | None = None,
        shift_by: int | str | None = None,
        from_file: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        given = {"to": to, "timestamp": timestamp, "ago": ago, "shift_by": shift_by, "from_file": from_file}
        require_one(given, "pass exactly one of them")
        if group_ids is None and from_file is None:
            raise ConfigurationError("group_ids", None, "name the groups: only a file may have them")
        if topics is not None and from_file is not None:
            raise ConfigurationError("topics", topics, "the file names the topics: leave this out")

    def request(self) -> OffsetRequest:
        from airflow_kafka_groups.change.restore.reset import ResetRequest, SetRequest

        if self.from_file is not None:
            return SetRequest(offsets=read_offsets_file("from_file", self.from_file, self.group_ids))
        return request_of(ResetRequest, self, timestamp_ms=self.timestamp, ago_seconds=self.ago)


class AlterGroupOffsetsOperator(_OffsetChangeOperator):
    """Set the committed offsets of groups without members to given values, limited to each log.

    :param offsets: ``{group: {topic: {partition: offset}}}``; numbers may be strings, and all of it may be a JSON
        string.
    :param create: also create groups that do not exist. Default false: they are kept (not templated).

    Results and failures are those of ``ResetGroupOffsetsOperator``.
    """

    verb = "reset.SetRequest"

    offsets = Argument(read_partition_offsets)
    create = Argument(read_flag, templated=False)

    def __init__(
        self,
        *,
        offsets: Mapping[str, Mapping[str, Mapping[int | str, int | str]]] | str,
        create: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


class CopyGroupOffsetsOperator(_OffsetChangeOperator):
    """Copy the committed offsets of groups to other groups of the cluster, which may not exist yet.

    To rename a group, copy it, and delete the source by ``DeleteGroupsOperator``. A source may have members: its
    offsets are copied as they are when they are read. A target that has members is kept.

    :param groups: the target of each source, ``{source: target}``; it may be a JSON string.
    :param topics: only these topics. Default: all topics with a commit.
    :param existing: what happens where a target has a commit: ``"keep"`` it, ``"replace"`` it, or take the ``"lower"``
        of both. Default ``"keep"``.

    Results and failures are those of ``ResetGroupOffsetsOperator``.
    """

    verb = "reset.CopyRequest"

    groups = Argument(read_pairs)
    topics = Argument(optional(read_topics))
    existing = Argument(one_of("keep", "replace", "lower"))

    def __init__(
        self,
        *,
        groups: Mapping[str, str] | str,
        topics: Sequence[str] | str | None = None,
        existing: str = "keep",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


def _read_groups_or_all(field: str, value: Any) -> list[str] | None:
    return None if value in (None, "null") else read_group_ids(field, value)


class MigrateGroupOffsetsOperator(_OffsetChangeOperator):
    """Set groups to the positions that they have in another cluster, whose topics are mirrored into this one.

    The connection is that of the target. A dry run writes a plan; ``plan_id`` and ``plan_digest`` apply it as it is. A
    partition whose position is not known as well as ``position`` wants is left out, with the reason; so is one whose
    topic has another number of partitions. A target's group that has members is kept.

    :param source_conn_id: the connection of the source. Required for the methods ``payload`` and ``timestamp``, and
        without a backup.
    :param backup_id: take the offsets of this backup instead of the source's.
    :param source_cluster: with ``backup_id``: the source's folder in the storage.
    :param group_ids: only these groups. Default: all of the backup, or all that the source lists.
    :param topics: only these topics of the source. Default: all topics with a commit.
    :param method: what offsets are translated by: ``"header"`` (a record header with the source offset),
        ``"offset-syncs"`` or ``"checkpoints"`` (of MirrorMaker 2), ``"payload"`` or ``"timestamp"``. Required without
        ``plan_id``.
    :param position: ``"at-or-before"`` (no record is skipped), ``"exact"`` or ``"at-or-after"``. Default
        ``"at-or-before"``.
    :param existing: what happens where a group has a commit in the target: ``"keep"`` it, ``"replace"`` it, or take the
        ``"lower"`` of both. Default ``"keep"``.
    :param topic_pattern: the name of a mirror, with ``{topic}`` in it. Default ``"{topic}"``.
    :param mapping: topics, or partitions as ``topic:0``, with a counterpart of another name, ``{source: target}``.
    :param header: the name of the header. Default ``"redpanda-migrator-offset"``.
    :param mirror_topic: MirrorMaker 2's topic, such as ``mm2-offset-syncs.west.internal``.
    :param plan_id: the plan to apply, with ``plan_digest``.
    :param plan_digest: its SHA-256, which the dry run returned.
    :param on_spark: compare payloads in a Spark job, for hundreds of thousands of offsets. Default false.
    :param spark: with ``on_spark``: as of ``KafkaSparkSubmitOperator``.

    Returns what ``ResetGroupOffsetsOperator`` does, and ``{"plan_id", "plan_digest", "method", "position", "distance",
    "refused"}``: the most records that are read twice (or skipped), and the number of partitions left out. Failures are
    those of ``ResetGroupOffsetsOperator``.
    """

    source_conn_id = Argument(optional(read_text_or_nothing))
    backup_id = Argument(optional(read_text_or_nothing))
    source_cluster = Argument(optional(read_text_or_nothing))
    group_ids = Argument(_read_groups_or_all)
    topics = Argument(optional(read_topics))
    method = Argument(optional(one_of("header", "offset-syncs", "checkpoints", "payload", "timestamp")))
    position = Argument(one_of("at-or-before", "exact", "at-or-after"))
    existing = Argument(one_of("keep", "replace", "lower"))
    topic_pattern = Argument(read_text)
    mapping = Argument(optional(read_pairs))
    header = Argument(read_text)
    mirror_topic = Argument(optional(read_text_or_nothing))
    plan_id = Argument(optional(read_text_or_nothing))
    plan_digest = Argument(optional(read_text_or_nothing))
    on_spark = Argument(read_flag)
    spark = Argument(optional(read_spark_arguments), names=False)

    def __init__(
        self,
        *,
        source_conn_id: str | None = None,
        backup_id: str | None = None,
        source_cluster: str | None = None,
        group_ids: Sequence[str] | str | None = None,
        topics: Sequence[str] | str | None = None,
        method: str | None = None,
        position: str = "at-or-before",
        existing: str = "keep",
        topic_pattern: str = "{topic}",
        mapping: Mapping[str, str] | str | None = None,
        header: str = "redpanda-migrator-offset",
        mirror_topic: str | None = None,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        on_spark: bool | str = False,
        spark: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._job = SparkJob()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.migrate import MigrateRequest
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        source = KafkaGroupsHook(self.source_conn_id) if self.source_conn_id else None
        client = None if source is None else source.get_conn()
        opens = None if client is None else lambda: client
        with ExitStack() as job:
            on_spark = None
            if self.on_spark and source is not None and not self.plan_id:
                on_spark = job.enter_context(self._prepared(source))
            request = request_of(MigrateRequest, self, source=opens, progress=self.log_progress, on_spark=on_spark)
            return {**self.change(context, request), **request.made.summary()}

    @contextmanager
    def _prepared(self, source: KafkaGroupsHook) -> Iterator[OnSpark]:
        """Prepare the job, in this thread, the only one that can read Airflow's connections."""
        from airflow_kafka_groups.observe.mirrors.batches import OnSpark
        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.storage.paths import CHANGES, new_id

        folder, name = self.site_layout().root / CHANGES, new_id(utc_now())
        places, output = folder / f"{name}-places.json", folder / f"{name}-translated.json"

        def settings(private: Path) -> dict[str, Path]:
            return {
                "--source-settings": source.write_source_settings(private / "source.json"),
                "--target-settings": self.hook.write_source_settings(private / "target.json"),
            }

        words = ["--places", str(places), "--output", str(output), "--position", self.position]
        arguments = {"name": self.task_id, **(self.spark or {})}
        with self._job.prepared("translate_offsets", words, arguments, settings, for_executors=True) as submit:
            yield OnSpark(places=places, output=output, submit=submit)

    def on_kill(self) -> None:
        """Stop the Spark job, or do not begin it."""
        self._job.kill()


class RestoreGroupOffsetsOperator(_OffsetChangeOperator):
    """Restore the offsets of a backup written by ``BackupGroupOffsetsOperator`` or by a deletion.

    :param plan_id: id of the plan of the backup, or of a backup without a plan, such as ``20261122T081500Z-1a2b3c4d``;
        the report has it.
    :param group_ids: only these groups; duplicates are ignored. Default, also for a template that renders to ``null``:
        all in the backup.
    :param overwrite: also set groups back that were used since: their consumers read records again, or skip some. A
        retry, or the task cleared, keeps those that did after an earlier try had reset them. Default false.

    Returns what ``ResetGroupOffsetsOperator`` does. A group that has members, has committed other offsets since the
    backup, or exists and was seen alive since then, is kept; a partition whose topic was deleted or recreated is
    skipped. Fails if the backup is damaged or of another cluster, if a group or a partition's log could not be read,
    with the others restored, and if an offset differs when read back.
    """

    verb = "from_backup.RestoreRequest"

    plan_id = Argument(read_text)
    group_ids = Argument(_read_groups_or_all)
    overwrite = Argument(read_flag)

    def __init__(
        self,
        *,
        plan_id: str,
        group_ids: Sequence[str] | str | None = None,
        overwrite: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


class KeepOffsetsAliveOperator(SelectingOperator, DryRunOperator):
    """Commit exactly the same offsets of sleeping groups again, before the brokers forget them.

    Run it on a schedule: a group is due when a third of ``offsets.retention.minutes`` is left, or when no earlier run
    is recorded. Groups that have members, moved, or are protected by the connection are left alone. Pass ``group_ids``
    or ``include``. What was committed is recorded in ``changes/`` before and afterwards.

    :param group_ids: the groups; duplicates are ignored. Default: those that ``include`` matches.
    :param include: patterns of the groups. Default: none.
    :param allow_membership: join and leave classic groups that had members: brokers count from when the last member
        left, and a commit does not change that. It adds to the group's generation. Default false.
    :param assignors: the assignors that the brief member offers. Default: those of Kafka's own clients.
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``, where they do not report it. Default:
        what they report.
    :param margin_seconds: the remaining time at which a group is due. Default: a third of the retention, and at least
        two intervals.
    :param interval_seconds: the time between two runs of the schedule. Default: not known.
    :param observe_seconds: the time between two readings of a group that must be equal. Default 10.

    Returns ``{"dry_run", "counts", "partitions", "retention_seconds", "margin_seconds", "next_due", "missing_brokers",
    "result_path", "left_alone", "not_kept"}``. Fails, after all other groups were kept alive, if a group failed, does
    not exist, or needs a membership that is not allowed, and if a broker did not list its groups.
    """

    ui_color = "#d4f0dc"

    allow_membership = Argument(read_flag)
    assignors = Argument(optional(read_names))
    offsets_retention_minutes = Argument(optional(partial(read_integer, minimum=1)))
    margin_seconds = Argument(optional(read_duration))
    interval_seconds = Argument(optional(read_duration))
    observe_seconds = Argument(read_duration)

    def __init__(
        self,
        *,
        include: Sequence[str] | str = (),
        allow_membership: bool | str = False,
        assignors: Sequence[str] | str | None = None,
        offsets_retention_minutes: int | str | None = None,
        margin_seconds: float | str | None = None,
        interval_seconds: float | str | None = None,
        observe_seconds: float | str = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(include=include, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.keep_alive import KeepAliveOutcome, KeepAliveRequest

        request = request_of(KeepAliveRequest, self)
        report: KeepAliveReport = self.carry_out(request)
        summary = report.summary()
        self.log.info("Keep-alive: %s; next due %s", summary["counts"], summary["next_due"])
        if not report.groups and not report.missing_brokers:
            self.log.warning("No group matches %s: nothing is kept alive. Check the patterns", request.include)
        left = {group.group_id: group.reason for group in report.groups if group.outcome is KeepAliveOutcome.LEFT_ALONE}
        problems = report.problems()
        self.warn_of("Not kept alive", left | problems)
        if problems and not self.dry_run:
            raise GroupsFailedError(problems, len(report.groups) + len(report.missing_brokers))
        return {
            "dry_run": self.dry_run,
            **summary,
            "left_alone": first_failures(left),
            "not_kept": first_failures(dict(problems)),
        }
