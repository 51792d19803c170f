"""The base classes of all operators: the connection, its hook, the storage, the groups, and who runs a task.

A class describes the arguments that it adds, and those of its bases whose meaning it changes. The reference puts them
together, and a test compares.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import BaseOperator, Context

from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_flag,
    read_group_ids,
    read_patterns,
    read_storage_path,
    read_text,
)
from airflow_kafka_groups.hooks.retries import set_retry_policy
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.shown import one_line, storable

if TYPE_CHECKING:
    from airflow_kafka_groups.change.restore.change_offsets import ChangeRequest
    from airflow_kafka_groups.change.restore.earlier_tries import Tries
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.observe.readings import GroupSelection
    from airflow_kafka_groups.storage.layout import Layout

log = logging.getLogger(__name__)

T = TypeVar("T")

PREFIX = "kafka_groups"
"""The first name of all metrics."""
FIRST_FAILURES = 20
"""The number of failures, or planned groups, in an XCom: enough for diagnosis, and small for any number of groups."""


class KafkaGroupsOperator(DeclaredArguments, BaseOperator):
    """The base class of operators that access a cluster.

    :param kafka_groups_conn_id: a connection of type ``kafka_groups`` or ``kafka``. Default ``kafka_groups_default``.
    """

    mended_by_retry: ClassVar[tuple[type[Exception], ...]] = ()
    """Failures that a retry of this task can mend, although other tasks do not retry them."""
    final_here: ClassVar[tuple[type[Exception], ...]] = ()
    """Failures that this task does not retry, although other tasks do."""

    kafka_groups_conn_id = Argument(read_text)

    def __init__(self, *, kafka_groups_conn_id: str = "kafka_groups_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        set_retry_policy(self, self.mended_by_retry, self.final_here)

    @cached_property
    def hook(self) -> KafkaGroupsHook:
        """The hook of the connection; first used after the connection's id is rendered."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        self.require_read()
        return KafkaGroupsHook(self.kafka_groups_conn_id)

    def warn_of(self, what: str, failed: Mapping[str, Any]) -> dict[str, str]:
        """Log the first failures, and return them, see ``first_failures``."""
        first = first_failures(failed)
        for name, reason in first.items():
            self.log.warning("%s: %s: %s", what, one_line(name), reason)
        return first


class StoredOperator(KafkaGroupsOperator):
    """The base class of operators that store files.

    :param storage_path: folder above all clusters: an absolute path, or a URL that Airflow's workers and Spark can both
        access, such as ``s3a://bucket/folder``.
    :param cluster: name of the cluster's folder in the storage, one for each cluster. Default: the connection's id.
    """

    storage_path = Argument(read_storage_path)
    cluster = Argument(optional(read_text))

    def __init__(self, *, storage_path: str, cluster: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._progress_logged_at = 0.0

    def layout(self) -> Layout:
        """Return the paths of the cluster's files."""
        from airflow_kafka_groups.hooks.storage import open_layout

        self.require_read()
        return open_layout(self.storage_path, self.cluster, self.kafka_groups_conn_id)

    def site_layout(self) -> Layout:
        """Return the same paths; raise for another storage than the site's, whose files somebody else may write."""
        self.floors()
        return self.layout()

    def floors(self) -> SiteFloors:
        """Return the limits of site and connection. Raises ``ConfigurationError`` for a storage that they forbid."""
        from airflow_kafka_groups.hooks.floors import site_floors

        return site_floors(self.hook.settings, self.storage_path)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster in messages and metrics: its folder, or the connection's id."""
        return str(self.cluster or self.kafka_groups_conn_id)

    def log_progress(self, stage: str, done: int, total: int) -> None:
        """Log the progress of a stage: at its end, and every five seconds before."""
        now = time.monotonic()
        if done >= total or now - self._progress_logged_at >= 5:
            self._progress_logged_at = now
            percent = 100 * done // total if total else 100
            bar = ("#" * (percent // 5)).ljust(20, "-")
            self.log.info("%-8s [%s] %3d %%: %d of %d", stage, bar, percent, done, total)


class DryRunOperator(StoredOperator):
    """The base class of operators that can show what they would change, without changing it.

    :param dry_run: only show what would be changed or deleted. Default false.
    """

    # Hides BaseOperator.dry_run(), which Airflow 3 calls nowhere; the word is the one people look for.
    dry_run = Argument(read_flag)  # type: ignore[assignment]

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def carry_out(self, request: ChangeRequest[T], tries: Tries | None = None) -> T:
        self.require_read()
        return self.hook.change(
            request,
            storage_path=self.storage_path,
            cluster=self.cluster,
            dry_run=self.dry_run,
            tries=tries,
            progress=self.log_progress,
        )


def first_failures(failed: Mapping[str, Any]) -> dict[str, str]:
    """Return the first failures with their reasons, ordered by group."""
    return storable({group_id: str(failed[group_id]) for group_id in sorted(failed)[:FIRST_FAILURES]})


class MatchingOperator(KafkaGroupsOperator):
    """The base class of operators about groups that match patterns.

    :param include: patterns of groups, where none are named: ``orders-*``, ``re:orders-.*``. Default: all.
    :param exclude: patterns of the groups to leave out, where none are named. Default: none.
    """

    include = Argument(read_patterns)
    exclude = Argument(read_patterns)

    def __init__(
        self, *, include: Sequence[str] | str = ("*",), exclude: Sequence[str] | str = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

    @property
    def matching(self) -> GroupFilter:
        return GroupFilter(self.include, self.exclude)


class SelectingOperator(MatchingOperator):
    """The base class of operators about named groups, or those of the cluster that match patterns.

    :param group_ids: the groups; duplicates are ignored. Default: those of the cluster that match.
    """

    group_ids = Argument(optional(read_group_ids))

    def __init__(self, *, group_ids: Sequence[str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def selection(self, named: Sequence[str] | None) -> GroupSelection:
        from airflow_kafka_groups.observe.readings import GroupSelection

        protected = self.hook.settings.protected_groups
        return GroupSelection(group_ids=named, groups=self.matching, protected=protected)


def task_run_of(actor: Mapping[str, str]) -> str:
    """Return what a task that is retried or cleared has in common with its earlier tries."""
    if "run_id" not in actor:  # outside of Airflow
        return uuid.uuid4().hex
    return "/".join(actor.get(name, "") for name in ("dag_id", "run_id", "task_id", "map_index"))


def every_mapped_run_of(actor: Mapping[str, str]) -> str:
    """Return what all tasks of a mapped one have in common, too.

    A group may be another one's when what it is mapped over was created again. The name is that of an unmapped task.
    """
    return task_run_of({**actor, "map_index": "-1"})  # as Airflow has it


def actor_of(context: Context) -> dict[str, str]:
    """Return the DAG, the run, the task, its try and the person who triggered it, as far as they are known."""
    run = context.get("dag_run")
    task = context.get("ti")
    found = {name: getattr(task, name, None) for name in ("dag_id", "task_id", "map_index", "try_number")}
    found |= {"run_id": context.get("run_id"), "triggered_by": getattr(run, "triggering_user_name", None)}
    return {name: str(value) for name, value in found.items() if value is not None}


def tries_of(context: Context) -> Tries:
    """Return what names the tries of a task."""
    from airflow_kafka_groups.change.restore.earlier_tries import Tries

    return Tries(task_run=task_run_of(actor_of(context)))


def gauges(cluster: str, values: Mapping[str, float | None], kind: str = "gauge") -> None:
    """Send gauges ``kafka_groups.<cluster>.<name>``, tagged with the cluster. ``None`` is omitted.

    :param kind: ``"incr"`` adds to counters of these names instead.
    """
    try:
        from airflow.providers.common.compat.sdk import Stats

        known = re.sub(r"[^A-Za-z0-9_-]", "_", cluster)  # plain statsd has no tags, and a dot begins another name
        for name, value in values.items():
            if value is not None:
                getattr(Stats, kind)(f"{PREFIX}.{known}.{name}", value, tags={"cluster": cluster})
    except Exception:  # what was deleted must be reported also where a metric cannot be sent
        log.warning("metrics could not be sent", exc_info=True)


def update_asset_events(operator: BaseOperator, context: Context, facts: Mapping[str, Any]) -> None:
    """Add facts to the event of every asset that is an outlet of the task: ``event.extra``. Fails no task."""
    from airflow.sdk import Asset
    from airflow.sdk.definitions.asset import AssetRef

    events = context.get("outlet_events")
    if events is not None:
        for outlet in operator.outlets or ():
            try:
                if isinstance(outlet, Asset | AssetRef):
                    events[outlet].extra.update(storable(dict(facts)))
            except Exception:  # Airflow asks its API server what a reference is of
                log.warning("the event of %s has no facts", outlet, exc_info=True)
