"""Delete the groups of a preview environment: shown in docs/howto/recipes.md."""

# [START recipe_preview]
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import ListGroupsOperator

with DAG(
    dag_id="delete_preview_groups",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    params={"preview": Param("pr-0", type="string", pattern="^pr-[0-9]+$")},  # so that no other pattern gets in
):
    find = ListGroupsOperator(
        task_id="find", kafka_groups_conn_id="staging", include=["preview.{{ params.preview }}.*"]
    )

    @task.short_circuit
    def has_groups(found: dict[str, Any]) -> bool:
        return bool(found["count"])

    delete = DeleteGroupsOperator(
        task_id="delete",
        kafka_groups_conn_id="staging",
        storage_path="/srv/kafka-groups",
        group_ids="{{ ti.xcom_pull('find')['groups'] | map(attribute='group_id') | list | tojson }}",
        observe_seconds=10,  # a group with members, or one that moves meanwhile, is kept and fails the task
        ignore_signs_of_life=True,  # the preview was in use a moment ago
    )
    has_groups(find.output) >> delete  # type: ignore[arg-type]  # XComs are dicts at run time
# [END recipe_preview]
