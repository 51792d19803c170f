from tests.dags.airflow_env import prepare_airflow

prepare_airflow()  # before any test module imports airflow

from tests.unit.operators.conftest import admin, backed_up, leases, planned  # noqa: E402

__all__ = ["admin", "backed_up", "leases", "planned"]
