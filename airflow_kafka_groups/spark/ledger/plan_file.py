"""A deletion plan as a job reads it: which groups it names, and by which snapshot. An edited plan is refused."""

from __future__ import annotations

import hashlib
import json

from airflow_kafka_groups.contracts import ids, paths
from airflow_kafka_groups.contracts.digest import digest_of
from airflow_kafka_groups.contracts.formats import FORMAT, PLAN_FORMATS, check_format
from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.storage import Storage


def read_plan(storage: Storage, folder: str, plan_id: str) -> tuple[set[str], str]:
    """Return the planned groups and the id of the snapshot they were judged by."""
    if not ids.is_id(plan_id):
        raise ArgumentError("--plan-id", plan_id, f"give an id as {ids.ID_EXAMPLE}")
    path = f"{folder}/{paths.plan(plan_id)}"
    group_ids, snapshot_id, sha256 = parse_plan(storage.read_text(path), path)
    if group_ids is not None:
        return group_ids, snapshot_id
    body = f"{folder}/{paths.plan_body(plan_id)}"
    if hashlib.sha256(storage.read_bytes(body)).hexdigest() != sha256:
        raise JobError(f"{body} does not hold the groups of the plan (its SHA-256 differs): plan again")
    rows = storage.spark.read.parquet(body).where("place is not null").select("group_id").collect()
    return {row["group_id"] for row in rows}, snapshot_id


def parse_plan(text: str, path: str) -> tuple[set[str] | None, str, str | None]:
    """Parse a plan and check its digest.

    Returns the planned groups, the snapshot's id, and the SHA-256 of the file with the groups. A plan of the first
    format has the groups itself; any other has the file.
    """
    try:
        plan = json.loads(text)
        version = check_format(plan, PLAN_FORMATS)
        if digest_of(plan) != plan["digest"]:
            raise JobError(f"{path} was changed after it was made: plan again")
        if version == FORMAT:
            return {group["group_id"] for group in plan["groups"]}, plan["snapshot_id"], None
        return None, plan["snapshot_id"], plan["body"]["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(f"{path} is not a plan ({type(exc).__name__}: {exc})") from exc
