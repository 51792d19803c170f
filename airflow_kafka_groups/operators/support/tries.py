"""The earlier tries of a task that changes offsets: it is retried or cleared, and groups were used in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.operators.support.actor import actor_of, task_run_of

if TYPE_CHECKING:
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_kafka_groups.change.restore.earlier_tries import EarlierTries
    from airflow_kafka_groups.storage.layout import Layout


def tries_of(
    context: Context, layout: Layout, asked: Mapping[str, Any] | None = None
) -> tuple[Callable[[str | None], EarlierTries], dict[str, Any]]:
    """Return what reads the earlier tries of a task, and what its record has for later ones.

    :param asked: what it is asked for, by the fields of a record. Default: nothing that a reset is asked for.
    """
    from airflow_kafka_groups.change.restore.earlier_tries import TASK_RUN, read_earlier_tries

    task_run, wanted = task_run_of(actor_of(context)), dict(asked or {})
    read = partial(read_earlier_tries, layout, task_run, wanted, _began(context))
    return cache(read), {TASK_RUN: task_run, **wanted}  # read once: a later look finds this try's own record


def _began(context: Context) -> datetime | None:
    """Return a time before the first try, by any worker's clock; ``None`` if it is not known.

    It is a week ago at least: Airflow may have been restored from a copy of its database that does not know the run.
    """
    from airflow_kafka_groups.storage.layout import utc_now

    due = getattr(context.get("dag_run"), "run_after", None)  # the start of a run that is cleared is a new one
    return None if due is None else min(due - timedelta(days=1), utc_now() - timedelta(days=7))
