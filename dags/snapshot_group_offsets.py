"""Take an hourly snapshot of all consumer groups: the history by which staleness is judged."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator

with DAG(
    dag_id="snapshot_group_offsets",
    description="Snapshot the committed offsets of all Kafka consumer groups.",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments(*SCOPE, hours=2),
):
    find_coordinators = FindCoordinatorsOperator(task_id="find_coordinators")
    list_offsets = ListGroupOffsetsOperator(task_id="list_offsets")

    find_coordinators >> list_offsets
