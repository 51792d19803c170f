"""One pair of DAGs for each cluster: shown in docs/howto/recipes.md."""

# [START recipe_factory]
from datetime import datetime
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator

STORAGE = "s3a://my_aws_conn@my-bucket/kafka-groups"
CLUSTERS: dict[str, dict[str, Any]] = {  # by the id of their connection
    "prod": {"exclude": ["payments-*"], "min_idle_seconds": "30d"},
    "staging": {"dry_run": False, "require_approval": False, "max_groups": 1000},
}


def dags_of(conn_id: str, policy: dict[str, Any]) -> None:
    """Make a cluster's DAGs: a snapshot each hour, and the shipped clean-up each day with the cluster's own policy."""
    always: dict[str, Any] = {"start_date": datetime(2026, 1, 1), "catchup": False, "tags": ["kafka", conn_id]}
    scope: dict[str, Any] = {"kafka_groups_conn_id": conn_id, "cluster": conn_id, "storage_path": STORAGE}
    with DAG(dag_id=f"snapshot_{conn_id}", schedule="@hourly", max_active_runs=1, **always):
        ListGroupOffsetsOperator(task_id="list_offsets", **scope)
    with DAG(dag_id=f"cleanup_{conn_id}", schedule="@daily", **always):
        TriggerDagRunOperator(
            task_id="clean_up",
            trigger_dag_id="cleanup_stale_groups",
            conf={**scope, **policy},
            fail_when_dag_is_paused=True,
        )


for conn_id, policy in CLUSTERS.items():
    dags_of(conn_id, policy)
# [END recipe_factory]
