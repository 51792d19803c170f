"""Keep sleeping groups alive every day: shown in docs/howto/keep-alive.md."""

# [START recipe_keep_alive]
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_kafka_groups.operators.offset_changes import KeepOffsetsAliveOperator

with DAG(dag_id="keep_standby_alive", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    KeepOffsetsAliveOperator(
        task_id="keep_alive",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        include=["standby.*", "quarterly-*"],
        allow_membership=True,
        interval_seconds=86_400,  # the schedule: a group is due two runs before it is forgotten, or earlier
        retries=3,
        retry_delay=timedelta(minutes=10),
    )
# [END recipe_keep_alive]
