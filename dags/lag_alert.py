"""Measure the lag of all consumer groups, and fail if any group lags too much.

The failed task alerts people through Airflow's callbacks, notifiers or mail. The lags are also metrics
(`kafka_groups.<connection>.lag.*`) and an event of the asset `kafka_groups_lag`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_kafka_groups.operators.dag_params import dag_arguments
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator

with DAG(
    dag_id="lag_alert",
    description="Alert when Kafka consumer groups lag.",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments("kafka_groups_conn_id", "include", "exclude", "max_lag", hours=1),
):
    measure = ListGroupLagOperator(
        task_id="measure",
        include="{{ params.include | tojson }}",
        exclude="{{ (params.exclude or []) | tojson }}",
        max_lag="{{ params.max_lag }}",
        outlets=[Asset("kafka_groups_lag")],
    )

    @task(retries=0)
    def alert(found: Any) -> None:
        from airflow.sdk.exceptions import AirflowFailException

        from airflow_kafka_groups.shown import one_line

        if found["lagging"]:
            # Airflow's database keeps no order in an XCom: PostgreSQL and MySQL sort names by their length.
            most = sorted(found["lagging_groups"].items(), key=lambda item: (-item[1], item[0]))
            first = ", ".join(f"{one_line(group)} ({lag})" for group, lag in most[:5])
            raise AirflowFailException(
                f"{found['lagging']} of {found['groups']} groups lag too much, the most lagging: {first}"
            )

    alert(measure.output)
