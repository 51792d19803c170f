"""Keep the groups that sleep in the demo, in seconds: what keep_groups_alive does each day."""

from datetime import datetime

from airflow.sdk import DAG, Param

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_params, refuse_unknown_conf, scope_arguments
from airflow_kafka_groups.operators.offset_changes import KeepOffsetsAliveOperator

with DAG(
    dag_id="keep_sleepers_alive",
    description="Keep consumer groups that sleep from being forgotten by their brokers.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    params={**dag_params(*SCOPE), "include": Param(["settlement-*"], type="array", items={"type": "string"})},
    default_args={**scope_arguments(), "pre_execute": refuse_unknown_conf},
    tags=["kafka", "consumer-groups"],
    doc_md=__doc__,
):
    KeepOffsetsAliveOperator(
        task_id="keep_alive", include="{{ params.include | tojson }}", allow_membership=True, observe_seconds=2
    )
