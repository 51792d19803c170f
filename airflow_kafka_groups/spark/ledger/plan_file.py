"""Read a deletion plan: which groups it names, and by which snapshot. An edited plan is refused."""

from __future__ import annotations

import hashlib
import json

from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.ledger.manifests import is_snapshot_id
from airflow_kafka_groups.spark.storage import Storage

FORMAT = 1


def read_plan(storage: Storage, folder: str, plan_id: str) -> tuple[set[str], str]:
    """Give the planned groups and the id of the snapshot they were judged by.

    :param storage: where the plan is.
    :param folder: the cluster's folder.
    :param plan_id: the plan; its id has the form of a snapshot's.
    """
    if not is_snapshot_id(plan_id):
        raise ArgumentError("--plan-id", plan_id, "give an id as 20260131T235959Z-0123abcd")
    path = f"{folder}/plans/{plan_id}.json"
    return parse_plan(storage.read_text(path), path)


def parse_plan(text: str, path: str) -> tuple[set[str], str]:
    """Read a plan's text, digest and all.

    :param text: the JSON.
    :param path: where it came from, for messages.
    """
    try:
        plan = json.loads(text)
        rest = {name: value for name, value in plan.items() if name != "digest"}
        written = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        if plan["format"] != FORMAT:
            raise JobError(f"{path} has the format {plan['format']!r}, and this job reads {FORMAT}")
        if hashlib.sha256(written).hexdigest() != plan["digest"]:
            raise JobError(f"{path} was changed after it was made: plan again")
        return {group["group_id"] for group in plan["groups"]}, plan["snapshot_id"]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(f"{path} is not a plan ({type(exc).__name__}: {exc})") from exc
