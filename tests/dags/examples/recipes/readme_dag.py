"""A clean-up of one's own, in fifteen lines: shown in README.md."""

# [START readme_dag]
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, chain

from airflow_kafka_groups.operators import dag_params as form
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.dag_params import refuse_unknown_conf
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import CheckPolicyOperator, PlanCleanupOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

arguments = {**form.scope_arguments(), "pre_execute": refuse_unknown_conf}
with DAG("my_cleanup", start_date=datetime(2026, 1, 1), params=form.dag_params(), default_args=arguments):
    policy = CheckPolicyOperator(task_id="policy", **form.policy_arguments())
    snapshot = ListGroupOffsetsOperator(task_id="snapshot")
    snapshot_id = "{{ ti.xcom_pull('snapshot')['snapshot_id'] }}"
    judge = KafkaSparkSubmitOperator(task_id="judge", **form.spark_arguments(snapshot_id, "policy"))
    plan = PlanCleanupOperator(task_id="plan", snapshot_id=snapshot_id, **form.plan_arguments())
    plan_id, digest = "{{ ti.xcom_pull('plan')['plan_id'] }}", "{{ ti.xcom_pull('plan')['digest'] }}"
    planned: dict[str, Any] = {"plan_id": plan_id, "plan_digest": digest}
    asked = {**planned, **form.approval_arguments()}  # the form's "Dry run" and "Ask before deleting"
    backup = BackupGroupOffsetsOperator(task_id="backup", **planned)
    approve = ApproveCleanupOperator(task_id="approve", **asked)
    pace: dict[str, Any] = {"lease": "{{ params.lease }}", "groups_per_second": "{{ params.groups_per_second }}"}
    delete = DeleteGroupsOperator(task_id="delete", retries=0, **asked, **pace)
    chain(policy, snapshot, judge, plan, backup, approve, delete)
# [END readme_dag]
