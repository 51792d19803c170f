"""Keep the offsets of sleeping consumer groups, such as those of a standby, from being forgotten. A dry run by default.

Brokers forget the offsets of groups without members after `offsets.retention.minutes`. Groups that are due have the
same offsets committed again; groups that are in use are left alone.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, dag_params, dry_run_argument
from airflow_kafka_groups.operators.offset_changes import KeepOffsetsAliveOperator

with DAG(
    dag_id="keep_groups_alive",
    description="Keep the offsets of sleeping Kafka consumer groups from being forgotten.",
    schedule=CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments("exclude", "allow_membership", "dry_run", *SCOPE, own={"include": dag_params("asleep")["asleep"]}),
):
    KeepOffsetsAliveOperator(
        task_id="keep_alive",
        include="{{ (params.include or []) | tojson }}",
        exclude="{{ (params.exclude or []) | tojson }}",
        allow_membership="{{ params.allow_membership }}",
        interval_seconds="1d",
        dry_run=dry_run_argument(),
    )
