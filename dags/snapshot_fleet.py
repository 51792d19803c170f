"""Snapshot the committed offsets of all consumer groups of many clusters.

The policy file's section `clusters` names the clusters and their connections. A cluster that does not answer does not
hold the others up.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import dag_arguments
from airflow_kafka_groups.operators.fleet import ListClustersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator

with DAG(
    dag_id="snapshot_fleet",
    description="Snapshot the committed offsets of all Kafka consumer groups of many clusters.",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments("policy_file", "storage_path", hours=2),
):
    clusters = ListClustersOperator(task_id="clusters", policy_file="{{ params.policy_file or '' }}")
    ListGroupOffsetsOperator.partial(task_id="list_offsets", storage_path="{{ params.storage_path }}").expand_kwargs(
        clusters.output
    )
