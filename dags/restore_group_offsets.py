"""Restore the committed offsets of consumer groups from the backup of a plan. A dry run by default.

Groups that have members, or were used since the backup, are kept. What the groups had before is written to the storage
before anything is changed.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, dry_run_argument
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator

with DAG(
    dag_id="restore_group_offsets",
    description="Restore the offsets of Kafka consumer groups from the backup of a plan.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments("plan_id", "group_ids", "overwrite", "dry_run", *SCOPE, retries=None),
):
    RestoreGroupOffsetsOperator(
        task_id="restore",
        plan_id="{{ params.plan_id }}",
        group_ids="{{ (params.group_ids or None) | tojson }}",
        overwrite="{{ params.overwrite }}",
        dry_run=dry_run_argument(),
    )
