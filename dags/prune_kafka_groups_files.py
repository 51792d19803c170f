"""Remove old snapshots, plans, backups, records and reports. A dry run by default.

The newest of each kind are always kept, and so are files that this package did not write.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, dry_run_argument
from airflow_kafka_groups.operators.pruning import PruneFilesOperator

LIMITS = ("snapshot_days", "cleanup_days", "change_days", "keep_newest")

with DAG(
    dag_id="prune_kafka_groups_files",
    description="Remove old snapshots, plans, backups and reports of Kafka consumer groups.",
    schedule=CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments(*SCOPE, *LIMITS, "dry_run"),
):
    PruneFilesOperator(
        task_id="prune", dry_run=dry_run_argument(), **{name: f"{{{{ params.{name} }}}}" for name in LIMITS}
    )
