"""A run of this DAG before the others builds what Airflow builds for the first task of a process."""

from datetime import datetime

from airflow.sdk import DAG, task

with DAG(dag_id="warm_up", schedule=None, start_date=datetime(2026, 1, 1)):

    @task
    def nothing() -> None:
        """Do nothing."""

    nothing()
