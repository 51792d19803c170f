"""Set consumer groups to the positions that they have in another cluster. A dry run by default.

The topics are mirrored, and the connection is that of the target. A dry run returns the id and the digest of its
plan. A run with these that is none applies it as it is.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, dry_run_argument, spark_settings
from airflow_kafka_groups.operators.offset_changes import MigrateGroupOffsetsOperator

FORM = ("source_conn_id", "group_ids", "method", "position", "existing", "topic_pattern", "mirror_topic", "on_spark")

with DAG(
    dag_id="migrate_group_offsets",
    description="Set Kafka consumer groups to their positions in another cluster.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments(*FORM, "plan_id", "plan_digest", "dry_run", *SCOPE, retries=None),
):
    MigrateGroupOffsetsOperator(
        task_id="migrate",
        source_conn_id="{{ params.source_conn_id or '' }}",
        group_ids="{{ (params.group_ids or None) | tojson }}",
        method="{{ params.method }}",
        position="{{ params.position }}",
        existing="{{ params.existing }}",
        topic_pattern="{{ params.topic_pattern }}",
        mirror_topic="{{ params.mirror_topic or '' }}",
        on_spark="{{ params.on_spark }}",
        spark=spark_settings(),
        plan_id="{{ params.plan_id or '' }}",
        plan_digest="{{ params.plan_digest or '' }}",
        dry_run=dry_run_argument(),
    )
