"""Start a batch when a group has read what was there: shown in docs/howto/recipes.md."""

# [START recipe_wait]
from datetime import datetime

from airflow.sdk import DAG, task

from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor

with DAG(dag_id="nightly_batch", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    caught_up = ListGroupOffsetsSensor(
        task_id="caught_up",
        kafka_groups_conn_id="prod",
        group_ids=["orders-sink"],
        to_end=True,  # everything that was in the topics when the sensor began to wait
        deferrable=True,
        poke_interval=30,
        timeout=3600,
    )

    @task
    def batch() -> str:
        return "what the group has written is complete"

    caught_up >> batch()
# [END recipe_wait]
