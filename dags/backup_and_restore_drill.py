"""Back up the committed offsets of consumer groups weekly, and verify that the backup can be restored.

The drill restores into its own scratch groups (`airflow-kafka-groups-drill.*`), compares them with the backup and
deletes them again. No other group is changed.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments

with DAG(
    dag_id="backup_and_restore_drill",
    description="Back up the offsets of Kafka consumer groups and test the restore.",
    schedule=CronTriggerTimetable("@weekly", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments(*SCOPE, "include", "exclude", "drill_groups"),
):
    backup = BackupGroupOffsetsOperator(
        task_id="backup",
        include="{{ params.include | tojson }}",
        exclude="{{ (params.exclude or []) | tojson }}",
    )
    drill = RestoreDrillOperator(
        task_id="drill",
        plan_id="{{ ti.xcom_pull('backup')['plan_id'] }}",
        max_groups="{{ params.drill_groups }}",
    )

    backup >> drill
