"""Back up all groups every night: shown in docs/howto/recipes.md."""

# [START recipe_backup]
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator

with DAG(dag_id="nightly_offsets_backup", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    BackupGroupOffsetsOperator(
        task_id="backup",
        kafka_groups_conn_id="prod",
        storage_path="s3a://my_aws_conn@my-bucket/kafka-groups",
        exclude=["console-consumer-*"],
        retries=3,
        retry_delay=timedelta(minutes=5),
    )
# [END recipe_backup]
