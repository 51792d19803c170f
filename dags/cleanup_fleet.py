"""Find stale consumer groups of many clusters by one policy, back them up and delete them. A dry run by default.

The policy file's section `clusters` names the clusters and their connections. Each cluster is cleaned up by itself: one
that fails or waits for its approval does not hold the others up. Enable `snapshot_fleet` first.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, CronTriggerTimetable, chain, task_group

from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.dag_params import (
    FLEET,
    approval_arguments,
    dag_arguments,
    plan_arguments,
    policy_arguments,
    result_of,
    spark_arguments,
)
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.fleet import FleetReportOperator, ListClustersOperator
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import CheckPolicyOperator, PlanCleanupOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor

with DAG(
    dag_id="cleanup_fleet",
    description="Find and delete stale Kafka consumer groups on many clusters, by one policy file.",
    schedule=CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments(*FLEET),
) as dag:
    clusters = ListClustersOperator(task_id="clusters", policy_file="{{ params.policy_file or '' }}")
    policy = CheckPolicyOperator(task_id="policy", **policy_arguments())

    @task_group
    def clean_up(kafka_groups_conn_id: Any, cluster: Any) -> None:
        scope: dict[str, Any] = {"kafka_groups_conn_id": kafka_groups_conn_id, "cluster": cluster}
        find_coordinators = FindCoordinatorsOperator(
            task_id="find_coordinators", kafka_groups_conn_id=kafka_groups_conn_id
        )
        list_offsets = ListGroupOffsetsOperator(task_id="list_offsets", **scope)
        snapshot_id = result_of("clean_up.list_offsets", "snapshot_id")
        judge_staleness = KafkaSparkSubmitOperator(
            task_id="judge_staleness",
            kafka_groups_conn_id=kafka_groups_conn_id,
            **spark_arguments(snapshot_id, "policy", cluster),
        )
        plan = PlanCleanupOperator(task_id="plan", snapshot_id=snapshot_id, **scope, **plan_arguments())
        planned = {
            "plan_id": result_of("clean_up.plan", "plan_id"),
            "plan_digest": result_of("clean_up.plan", "digest"),
            **scope,
        }
        asked = {**planned, **approval_arguments()}
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
            task_id="verify",
            audit_path=result_of("clean_up.delete", "audit_path"),
            kafka_groups_conn_id=kafka_groups_conn_id,
            poke_interval=10,
            timeout=600,
        )
        report = CleanupReportOperator(
            task_id="report", plan_id=result_of("clean_up.plan", "plan_id"), trigger_rule="all_done", **scope
        )
        chain(find_coordinators, list_offsets, judge_staleness, plan, backup, approve, delete, verify, report)
        plan >> notify >> report  # an owner who cannot be notified does not hold up the groups of others

    fleet = FleetReportOperator(
        task_id="fleet",
        storage_path="{{ params.storage_path }}",
        clusters=clusters.output,
        trigger_rule="all_done",
        outlets=[Asset("kafka_groups_fleet")],
    )
    # Fails if a cluster fails: the report, which always runs, hides no failure, nor does what is skipped.
    done = EmptyOperator(task_id="done", trigger_rule="none_failed")

    policy >> clean_up.expand_kwargs(clusters.output) >> fleet
    [*(dag.get_task(f"clean_up.{name}") for name in ("verify", "notify", "report")), fleet] >> done
