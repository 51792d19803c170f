"""Let a new version take over where the old one has stopped: shown in docs/howto/recipes.md."""

# [START recipe_blue_green]
from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.offset_changes import CopyGroupOffsetsOperator
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor

BLUE, GREEN = "checkout-blue", "checkout-green"

with DAG(dag_id="switch_to_green", schedule=None, start_date=datetime(2026, 1, 1)):
    blue_has_stopped = GroupsEmptySensor(
        task_id="blue_has_stopped", kafka_groups_conn_id="prod", group_ids=[BLUE], deferrable=True, timeout=900
    )
    green_begins_there = CopyGroupOffsetsOperator(
        task_id="green_begins_there",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        groups={BLUE: GREEN},  # green must have no members yet: start its consumers after this run
    )
    blue_has_stopped >> green_begins_there
# [END recipe_blue_green]
