"""Copy the committed offsets of consumer groups to other groups of the cluster. A dry run by default.

A target that has members is kept. What the targets had before is written to the storage before anything is changed.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, dry_run_argument
from airflow_kafka_groups.operators.offset_changes import CopyGroupOffsetsOperator

with DAG(
    dag_id="copy_group_offsets",
    description="Copy the offsets of Kafka consumer groups to other groups.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments("groups", "existing", "dry_run", *SCOPE, retries=None),
):
    CopyGroupOffsetsOperator(
        task_id="copy",
        groups="{{ (params.groups or {}) | tojson }}",
        existing="{{ params.existing }}",
        dry_run=dry_run_argument(),
    )
