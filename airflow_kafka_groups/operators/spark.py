"""Operators for Spark: prepare a group's offsets, run a job with the connection's settings, commit the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    check_url,
    one_of,
    optional,
    read_flag,
    read_group_id,
    read_place,
    read_text,
    read_words,
)
from airflow_kafka_groups.hooks.links import push_report_path
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.judge.evidence import COMMIT_LOG_MODES, OFF, REQUIRED
from airflow_kafka_groups.operators.offset_changes import _OffsetChangeOperator, require_committed
from airflow_kafka_groups.operators.support.base import KafkaGroupsOperator, StoredOperator, actor_of
from airflow_kafka_groups.operators.support.spark_connection import (
    SparkJob,
    application_of,
    read_spark_arguments,
    why_not_here,
)
from airflow_kafka_groups.shown import one_line
from airflow_kafka_groups.spark.plain_jobs import base_of, needs_no_spark, run_plain_job
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.layout import check_id

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_kafka_groups.change.backlog import ProcessedBacklog


def _read_application(field: str, value: Any) -> str:
    text = read_text(field, value)
    check_url(field, text)
    return text


class GroupOffsetsToSparkOperator(StoredOperator):
    """Write the committed offsets and log ends of one group for the Spark job that processes its backlog.

    :param group_id: the group; it must be Empty in the snapshot.
    :param snapshot_id: the snapshot taken by ``ListGroupOffsetsOperator``. Default: the newest complete one.
    :param for_commit: the offsets will be committed afterwards, so refuse a group that the connection must not change
        before any work is done. Default true (not templated).

    Returns ``{"backlog_id", "group_id", "snapshot_id", "path", "result_path", "output_path", "partitions",
    "offsets"}``: the path of the offsets, the paths for the job's result and output, and the number of unread offsets.
    Fails if the group is not in the snapshot, has members, no commits, or could not be read.
    """

    group_id = Argument(read_group_id)
    snapshot_id = Argument(optional(read_text))
    for_commit = Argument(read_flag, templated=False)

    def __init__(
        self, *, group_id: str, snapshot_id: str | None = None, for_commit: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.backlog import write_backlog
        from airflow_kafka_groups.observe.snapshot.reader import latest_manifest
        from airflow_kafka_groups.storage.layout import utc_now

        layout = self.layout()
        group_id = self.group_id
        if self.for_commit:
            self.hook.settings.require_writable(group_id)
        snapshot_id = self.snapshot_id or latest_manifest(layout).snapshot_id
        found = write_backlog(layout, snapshot_id, group_id, utc_now())
        self.log.info("Group %s: %s unread offsets, %d partitions", one_line(group_id), found.offsets, found.partitions)
        paths = {name: str(getattr(found, name)) for name in ("path", "result_path", "output_path")}
        counts = {"partitions": found.partitions, "offsets": found.offsets}
        return {"backlog_id": found.backlog_id, "group_id": group_id, "snapshot_id": snapshot_id, **paths, **counts}


class KafkaSparkSubmitOperator(KafkaGroupsOperator):
    """Run a Spark job that needs Kafka, with the connection's settings in a file that only its owner can read.

    The file is written for this run and removed afterwards, also when the task is killed; its path is the job's
    ``--kafka-properties``. No secret of the connection is on the command line, in the environment or in Spark's
    configuration. The properties in ``spark["conf"]`` are in a second file of that kind, not on the command line, as
    are the variables in ``spark["env_vars"]`` that a driver on YARN or Kubernetes gets.

    :param application: a job of this package, e.g. ``process_group_backlog``, or the path of your own job that accepts
        ``--kafka-properties``.
    :param application_args: the job's other arguments.
    :param spark: arguments of ``SparkSubmitHook``: ``conn_id``, ``conf``, ``py_files``, ``packages`` and others.
    :param kafka: ``"required"`` (default) passes ``--kafka-properties``; ``"auto"`` runs the job without it if the
        connection has settings that Kafka's Java client does not support; ``"off"`` never passes it.

    While the job runs, the log shows a bar of its stages, a line every ten seconds at most (deploy mode ``client``).

    Without a Spark connection the job runs on this machine, unless YARN is configured (``HADOOP_CONF_DIR``). If Spark
    cannot run there, because there is no Java, no spark-submit or no Spark provider, jobs that need none still run, in
    the task itself: ``judge_staleness`` without ``--table``, and with ``kafka="auto"`` or ``"off"``.

    Fails if the job fails, and if the connection has settings that Kafka's Java client does not support. In deploy mode
    ``cluster`` the file is shipped by ``--files``, so the place where Spark uploads files must be private.
    """

    application = Argument(_read_application)
    application_args = Argument(read_words, names=False)
    spark = Argument(optional(read_spark_arguments), names=False)  # a property may be secret, or the word None
    kafka = Argument(one_of(*COMMIT_LOG_MODES))

    def __init__(
        self,
        *,
        application: str,
        application_args: Sequence[str] = (),
        spark: Mapping[str, Any] | None = None,
        kafka: str = REQUIRED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._job = SparkJob()

    def execute(self, context: Context) -> None:
        self.require_read()
        arguments = dict(self.spark or {})
        arguments.setdefault("name", self.task_id)
        job, _ = application_of(self.application)
        given = [*job, *self.application_args]
        if job and self.kafka != REQUIRED and needs_no_spark(given) and (why := why_not_here(arguments)):
            self._job.require_alive()
            self.log.warning("The job runs in this task, without Spark and without access to Kafka: %s", why)
            summary = run_plain_job(given, open_path("--base", base_of(given)))
            self.log.info("%s", json.dumps(summary))
            return
        with self._job.prepared(self.application, self.application_args, arguments, self._properties) as submit:
            submit()

    def _properties(self, folder: Path) -> dict[str, Path]:
        if self.kafka == OFF:
            return {}
        try:
            return {"--kafka-properties": self.hook.write_spark_properties(folder / "kafka.properties")}
        except ConfigurationError as exc:
            if self.kafka == REQUIRED:
                raise
            self.log.warning("The job runs without access to Kafka: %s", exc)
            return {}

    def on_kill(self) -> None:
        """Stop the job, or do not begin it."""
        self._job.kill()


class CommitGroupBacklogOperator(_OffsetChangeOperator):
    """Commit what ``process_group_backlog --no-commit`` processed, unless the group was used meanwhile.

    :param backlog_id: the id that the result must have, as returned by ``GroupOffsetsToSparkOperator``.
    :param result_path: the job's ``--result``: with the floor ``storage_path``, a file in that storage.

    Returns what ``ResetGroupOffsetsOperator`` does, and ``"targets"``: pass these to ``ListGroupOffsetsSensor``. Fails
    without a commit if the group has members, has moved or is protected. A retry commits nothing twice.
    """

    backlog_id = Argument(read_text)
    result_path = Argument(read_place)

    def __init__(self, *, backlog_id: str, result_path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def request(self) -> ProcessedBacklog:
        from airflow_kafka_groups.change.backlog import read_result

        check_id("backlog_id", self.backlog_id)
        return read_result(self.place_inside("result_path"), self.backlog_id)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.report.html import write_taken_records

        request = self.request()
        summary = self.change(context, request)
        why = "".join(f" {reason}." for reason in summary["kept"].values())
        outcome = (
            f"Not committed:{why}" if why else "Nothing was committed: a dry run." if self.dry_run else "Committed."
        )
        dag_id, group_id = actor_of(context).get("dag_id"), request.change.group_id
        with unless_warned("The page of what was processed could not be written: %s"):
            path = write_taken_records(self.layout(), self.backlog_id, group_id, request.taken, outcome, dag_id)
            push_report_path(context, path)
        require_committed(summary)
        return {**summary, "targets": request.targets}
