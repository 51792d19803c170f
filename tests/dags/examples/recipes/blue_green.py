"""Let a new version take over where the old one has stopped: shown in docs/howto/recipes.md."""

# [START recipe_blue_green]
from collections import defaultdict
from datetime import datetime

from airflow.sdk import DAG, task

from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor

BLUE, GREEN = "checkout-blue", "checkout-green"

with DAG(dag_id="switch_to_green", schedule=None, start_date=datetime(2026, 1, 1)):
    blue_has_stopped = GroupsEmptySensor(
        task_id="blue_has_stopped", kafka_groups_conn_id="prod", group_ids=[BLUE], deferrable=True, timeout=900
    )

    @task
    def where_blue_stopped() -> dict[str, dict[str, dict[str, int]]]:
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        read = KafkaGroupsHook("prod").list_consumer_group_offsets([BLUE])
        read.raise_for_errors()
        offsets: dict[str, dict[str, int]] = defaultdict(dict)
        for at, committed in read.succeeded[BLUE].items():
            if committed is not None:
                offsets[at.topic][str(at.partition)] = committed.offset
        return {GREEN: dict(offsets)}

    offsets = where_blue_stopped()
    green_begins_there = AlterGroupOffsetsOperator(
        task_id="green_begins_there",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        offsets="{{ ti.xcom_pull('where_blue_stopped') | tojson }}",
        create=True,  # green must have no members yet: start its consumers after this run
    )
    blue_has_stopped >> offsets >> green_begins_there
# [END recipe_blue_green]
