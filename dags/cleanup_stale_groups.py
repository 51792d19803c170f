"""Find stale consumer groups, back up their offsets and delete them. A dry run by default.

Staleness is judged by the history of snapshots, so enable `snapshot_group_offsets` first. Every step checks the
previous one's output; the report is always written.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronTriggerTimetable, chain

from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.dag_params import (
    approval_arguments,
    dag_arguments,
    plan_arguments,
    policy_arguments,
    spark_arguments,
)
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import CheckPolicyOperator, PlanCleanupOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor

with DAG(
    dag_id="cleanup_stale_groups",
    description="Find stale Kafka consumer groups, back up their offsets and delete them.",
    schedule=CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments(),
):
    policy = CheckPolicyOperator(task_id="policy", **policy_arguments())
    find_coordinators = FindCoordinatorsOperator(task_id="find_coordinators")
    list_offsets = ListGroupOffsetsOperator(task_id="list_offsets")
    snapshot_id = "{{ ti.xcom_pull('list_offsets')['snapshot_id'] }}"
    judge_staleness = KafkaSparkSubmitOperator(task_id="judge_staleness", **spark_arguments(snapshot_id, "policy"))
    plan = PlanCleanupOperator(task_id="plan", snapshot_id=snapshot_id, **plan_arguments())
    plan_id, digest = "{{ ti.xcom_pull('plan')['plan_id'] }}", "{{ ti.xcom_pull('plan')['digest'] }}"
    planned: dict[str, Any] = {"plan_id": plan_id, "plan_digest": digest}
    asked = {**planned, **approval_arguments()}
    # Notifies by the connection that the policy file or KAFKA_GROUPS_DEFAULTS names (notify), or by its own notifiers.
    notify = NotifyOwnersOperator(task_id="notify", dry_run=asked["dry_run"], **planned)
    backup = BackupGroupOffsetsOperator(task_id="backup", **planned)
    approve = ApproveCleanupOperator(task_id="approve", response_timeout=timedelta(hours=12), **asked)
    delete = DeleteGroupsOperator(
        task_id="delete",
        lease="{{ params.lease }}",
        groups_per_second="{{ params.groups_per_second }}",
        retries=0,
        **asked,
    )
    verify = DeleteGroupsSensor(
        task_id="verify", audit_path="{{ ti.xcom_pull('delete')['audit_path'] }}", poke_interval=10, timeout=600
    )
    report = CleanupReportOperator(
        task_id="report", plan_id="{{ (ti.xcom_pull('plan') or {}).get('plan_id', '') }}", trigger_rule="all_done"
    )
    # Fails if verify fails: the report, which always runs, hides no failure, nor does what is skipped.
    done = EmptyOperator(task_id="done", trigger_rule="none_failed")

    planning = (policy, find_coordinators, list_offsets, judge_staleness, plan)
    chain(*planning, backup, approve, delete, verify, report, done)
    plan >> notify >> report  # an owner who cannot be notified does not hold up the groups of others
    [verify, notify] >> done
