"""Snapshot the committed offsets of all consumer groups of many clusters.

The policy file's section `clusters` names the clusters and their connections. A cluster that does not answer does not
hold the others up.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import dag_params, refuse_unknown_conf
from airflow_kafka_groups.operators.fleet import ListClustersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator

with DAG(
    dag_id="snapshot_fleet",
    description="Snapshot the committed offsets of all Kafka consumer groups of many clusters.",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params=dag_params("policy_file", "storage_path"),
    default_args={
        "pre_execute": refuse_unknown_conf,
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=2),
    },
    tags=["kafka", "consumer-groups"],
    doc_md=__doc__,
):
    clusters = ListClustersOperator(task_id="clusters", policy_file="{{ params.policy_file or '' }}")
    ListGroupOffsetsOperator.partial(task_id="list_offsets", storage_path="{{ params.storage_path }}").expand_kwargs(
        clusters.output
    )
