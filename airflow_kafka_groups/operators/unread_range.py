"""Commit after success: fix what a group has not read, work on it in other tasks, and commit when they have succeeded.

The work is done at least once, and exactly once if it is idempotent: every try of it gets the same range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import one_of, optional, read_group_id, read_place, read_topics
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.operators.offset_changes import _OffsetChangeOperator, require_committed
from airflow_kafka_groups.operators.support.base import StoredOperator, actor_of, task_run_of
from airflow_kafka_groups.shown import one_line

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_kafka_groups.change.restore.reset import CommitRequest
    from airflow_kafka_groups.change.unread_range import UnreadRange


class FixUnreadRangeOperator(StoredOperator):
    """Fix what a group has not read, up to the end of the log, for the tasks that follow: the same for each try.

    :param group_id: the group; it must have no members, and may not exist yet.
    :param topics: the topics. Default: those with a commit.
    :param on_no_commit: what to do with a partition without a commit: ``"fail"`` (default), or read it ``"from-start"``
        or ``"from-end"`` of its log.
    :param on_data_loss: what to do where retention has removed unread records: ``"fail"`` (default) or
        ``"skip-to-start"``.

    Returns ``{"group_id", "range_path", "partitions", "offsets"}``. ``read_range(range_path)`` returns the range of
    each partition. Fails if the group has members, is protected, or cannot be read, and where a commit is beyond the
    end of the log, or its topic does not exist any more.
    """

    group_id = Argument(read_group_id)
    topics = Argument(optional(read_topics))
    on_no_commit = Argument(one_of("fail", "from-start", "from-end"))
    on_data_loss = Argument(one_of("fail", "skip-to-start"))

    def __init__(
        self,
        *,
        group_id: str,
        topics: Sequence[str] | str | None = None,
        on_no_commit: str = "fail",
        on_data_loss: str = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.unread_range import fix_range, range_path
        from airflow_kafka_groups.spark.unread.ranges import BacklogPolicy
        from airflow_kafka_groups.storage.layout import utc_now

        layout, settings = self.site_layout(), self.hook.settings
        settings.require_writable(self.group_id)
        task_run = task_run_of(actor_of(context))
        path = range_path(layout, task_run, getattr(context.get("dag_run"), "run_after", None) or utc_now())
        policy = BacklogPolicy(on_no_commit=self.on_no_commit, on_data_loss=self.on_data_loss)
        fix = partial(
            fix_range, path=path, task_run=task_run, group_id=self.group_id, topics=self.topics, policy=policy
        )
        found = self.hook.run(fix)
        self.log.info("Group %s: %d unread offsets, in %s", one_line(found.group_id), found.offsets, path)
        return {
            "group_id": found.group_id,
            "range_path": str(path),
            "partitions": len(found.ranges),
            "offsets": found.offsets,
        }


class CommitUnreadRangeOperator(_OffsetChangeOperator):
    """Commit a range that was fixed, unless the group was used meanwhile. A retry commits nothing twice.

    As a teardown, which Airflow runs after failed work, too, it commits only if all tasks right before it succeeded.

    :param range_path: what ``FixUnreadRangeOperator`` returned: with the floor ``storage_path``, a file in that
        storage.

    Returns what ``ResetGroupOffsetsOperator`` does. Fails without a commit if the group has members, has moved, is
    protected, or a topic was recreated.
    """

    range_path = Argument(read_place)

    def __init__(self, *, range_path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def request(self) -> CommitRequest:
        from airflow_kafka_groups.change.unread_range import read_range

        return read_range(self.place_inside("range_path")).to_commit()

    def execute(self, context: Context) -> dict[str, Any]:
        if self.is_teardown and (failed := self._not_succeeded(context)):
            raise AirflowSkipException(f"Not committed: {', '.join(failed)}. Clear what failed to commit after it")
        summary = self.change(context, self.request())
        require_committed(summary)
        return summary

    def _not_succeeded(self, context: Context) -> list[str]:
        run, before = context["dag_run"], sorted(self.upstream_task_ids)
        found = context["ti"].get_task_states(dag_id=run.dag_id, task_ids=before, run_ids=[run.run_id])
        states: dict[str, set[str]] = {each: set() for each in before}
        for name, state in found.get(run.run_id, {}).items():
            task_id = name if name in states else name.rpartition("_")[0]  # a mapped one has its index behind
            states.setdefault(task_id, set()).add(str(state))
        others = {task_id: found for task_id, found in states.items() if found != {"success"}}
        return [f"task {id_} is {' and '.join(sorted(of)) or 'not known'}" for id_, of in others.items()]


def commit_after_success(**arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., XComArg]]:
    """Make a task of a function that works on what a group has not read: fixed before it, and committed after it.

    :param arguments: those of ``FixUnreadRangeOperator``.

    The function's first argument is the ``UnreadRange``, and the others are those that it is called with. Calling it
    makes a task group of its name: ``fix_range`` (a setup), the work, and ``commit_range`` (a teardown, whose failure
    fails the run). It returns the work's output.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., XComArg]:
        @wraps(function)
        def build(*args: Any, **kwargs: Any) -> XComArg:
            from airflow.sdk import TaskGroup, task

            @wraps(function)
            def work(fixed: dict[str, Any], *more: Any, **named: Any) -> Any:
                return function(read_range(fixed["range_path"]), *more, **named)

            of_all = {name: arguments[name] for name in arguments if name not in _OF_RANGE}
            with TaskGroup(function.__name__):
                fix = FixUnreadRangeOperator(task_id="fix_range", **arguments)
                done = task(work)(fix.output, *args, **kwargs)  # type: ignore[arg-type]  # XComs are dicts at run time
                place = f"{{{{ ti.xcom_pull('{fix.task_id}')['range_path'] }}}}"
                commit = CommitUnreadRangeOperator(task_id="commit_range", range_path=place, **of_all).as_teardown(
                    setups=fix, on_failure_fail_dagrun=True
                )
                fix >> done >> commit
            return done

        return build

    return decorate


_OF_RANGE = frozenset({"group_id", "topics", "on_no_commit", "on_data_loss"})


def read_range(range_path: str) -> UnreadRange:
    """Read the range that ``FixUnreadRangeOperator`` fixed, in a task between.

    Raises ``MaintenanceError`` for a file that is missing or damaged, and ``StorageError``.
    """
    from airflow_kafka_groups.change.unread_range import read_range

    return read_range(open_path("range_path", range_path))
