"""A deletion plan as a job reads it: which groups it names, and by which snapshot. An edited plan is refused."""

from __future__ import annotations

import json

from airflow_kafka_groups.contracts import ids, paths
from airflow_kafka_groups.contracts.digest import digest_of
from airflow_kafka_groups.contracts.formats import check_format
from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.storage import Storage


def read_plan(storage: Storage, folder: str, plan_id: str) -> tuple[set[str], str]:
    """Return the planned groups and the id of the snapshot they were judged by.

    :param storage: where the plan is.
    :param folder: the cluster's folder.
    :param plan_id: the plan.
    """
    if not ids.is_id(plan_id):
        raise ArgumentError("--plan-id", plan_id, f"give an id as {ids.ID_EXAMPLE}")
    path = f"{folder}/{paths.plan(plan_id)}"
    return parse_plan(storage.read_text(path), path)


def parse_plan(text: str, path: str) -> tuple[set[str], str]:
    """Parse a plan and check its digest.

    :param text: the JSON.
    :param path: where it came from, for messages.
    """
    try:
        plan = json.loads(text)
        check_format(plan)
        if digest_of(plan) != plan["digest"]:
            raise JobError(f"{path} was changed after it was made: plan again")
        return {group["group_id"] for group in plan["groups"]}, plan["snapshot_id"]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(f"{path} is not a plan ({type(exc).__name__}: {exc})") from exc
