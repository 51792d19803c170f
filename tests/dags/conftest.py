from tests.dags.airflow_env import prepare_airflow, write_unchanged_dags_once

prepare_airflow()  # before any test module imports airflow
write_unchanged_dags_once()
