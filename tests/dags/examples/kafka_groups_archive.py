"""Keep what doomed groups never read: a task to put before the deletion of your own clean-up DAG. Shown in the docs."""

from datetime import datetime
from typing import Any

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import approval_arguments, dag_params, scope_arguments, spark_settings
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

with DAG(
    dag_id="archive_before_delete",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    params=dag_params(),
    default_args=scope_arguments(),
):
    # [START howto_archive_before_delete]
    plan_id, digest = "{{ ti.xcom_pull('plan')['plan_id'] }}", "{{ ti.xcom_pull('plan')['digest'] }}"
    archive = KafkaSparkSubmitOperator(
        task_id="archive",
        application="archive_backlog",
        application_args=[
            *("--base", "{{ params.storage_path }}", "--cluster", "{{ params.cluster }}"),
            *("--plan-id", plan_id, "--on-missing-topic", "skip", "--on-data-loss", "skip-to-start"),
        ],
        spark=spark_settings(),
    )
    asked: dict[str, Any] = {"plan_id": plan_id, "plan_digest": digest, **approval_arguments()}
    delete = DeleteGroupsOperator(task_id="delete", retries=0, **asked)
    archive >> delete  # an archive that fails stops the deletion
    # [END howto_archive_before_delete]
