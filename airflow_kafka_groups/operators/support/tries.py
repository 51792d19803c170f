"""Who runs a task that changes offsets, and what its earlier tries did: it is retried or cleared, groups move on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_kafka_groups.change.restore.offset_requests import Tries


NOT_MAPPED = "-1"
"""Airflow's ``map_index`` of a task that is not mapped."""


def task_run_of(actor: Mapping[str, str]) -> str:
    """Return what a task that is retried or cleared has in common with its earlier tries."""
    if "run_id" not in actor:  # outside of Airflow
        return uuid.uuid4().hex
    return "/".join(actor.get(name, "") for name in ("dag_id", "run_id", "task_id", "map_index"))


def every_mapped_run_of(actor: Mapping[str, str]) -> str:
    """Return what all tasks of a mapped one have in common, too.

    A group may be another one's when what the task is mapped over was created again. The name is that of a task that
    is not mapped.
    """
    return task_run_of({**actor, "map_index": NOT_MAPPED})


def actor_of(context: Context) -> dict[str, str]:
    """Return the DAG, the run, the task, its try and the person who triggered it, as far as they are known."""
    run = context.get("dag_run")
    task = context.get("ti")
    found = {
        "dag_id": getattr(task, "dag_id", None),
        "run_id": context.get("run_id"),
        "task_id": getattr(task, "task_id", None),
        "map_index": getattr(task, "map_index", None),
        "try_number": getattr(task, "try_number", None),
        "triggered_by": getattr(run, "triggering_user_name", None),
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def tries_of(context: Context) -> Tries:
    """Return which runs are tries of the same task."""
    from airflow_kafka_groups.change.restore.offset_requests import Tries

    return Tries(task_run=task_run_of(actor_of(context)), since=_began(context))


def _began(context: Context) -> datetime | None:
    """Return a time before the first try, by any worker's clock; ``None`` if it is not known.

    It is a week ago at least: Airflow may have been restored from a copy of its database that does not know the run.
    """
    from airflow_kafka_groups.storage.layout import utc_now

    due = getattr(context.get("dag_run"), "run_after", None)  # the start of a run that is cleared is a new one
    return None if due is None else min(due - timedelta(days=1), utc_now() - timedelta(days=7))
