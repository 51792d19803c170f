"""The recipe of docs/howto/recipes.md that commits what several tasks have worked on."""

# [START howto_operator_unread_range]
from datetime import datetime

from airflow.sdk import DAG, task

from airflow_kafka_groups.operators.unread_range import (
    CommitUnreadRangeOperator,
    FixUnreadRangeOperator,
    read_range,
)

stored = {"kafka_groups_conn_id": "prod", "storage_path": "/srv/kafka-groups"}

with DAG(dag_id="load_in_steps", schedule=None, start_date=datetime(2026, 1, 1), max_active_runs=1):
    fix = FixUnreadRangeOperator(task_id="fix", group_id="warehouse-steps", **stored)
    place = "{{ ti.xcom_pull('fix')['range_path'] }}"

    @task
    def work(range_path: str) -> list[str]:
        return [f"{each.topic}[{each.partition}]: {each.end - each.start}" for each in read_range(range_path).ranges]

    commit = CommitUnreadRangeOperator(task_id="commit", range_path=place, **stored)
    fix >> work(place) >> commit.as_teardown(setups=fix, on_failure_fail_dagrun=True)
# [END howto_operator_unread_range]
