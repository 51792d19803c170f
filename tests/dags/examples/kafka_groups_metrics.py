"""The metrics of each group, after every clean-up: shown in docs/howto/watch.md."""

# [START howto_group_metrics]
from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.report import ExportGroupMetricsOperator

with DAG(dag_id="group_metrics", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False):
    ExportGroupMetricsOperator(
        task_id="group_metrics",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        openmetrics_path="/var/lib/node_exporter/textfile/kafka_groups.prom",
    )
# [END howto_group_metrics]
