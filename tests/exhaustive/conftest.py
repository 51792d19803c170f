from tests.dags.airflow_env import prepare_airflow

prepare_airflow()  # before any test module imports airflow
