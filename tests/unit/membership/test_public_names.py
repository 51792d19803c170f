"""The package offers what it says, and stays free of Airflow and of other clients."""

from __future__ import annotations

import inspect
import subprocess
import sys

from airflow_kafka_groups import membership


def test_all_is_exactly_what_the_package_offers() -> None:
    offered = {
        name for name, value in vars(membership).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert offered == set(membership.__all__)


def test_it_loads_neither_airflow_nor_another_client_nor_the_admin_core() -> None:
    heavy = "('airflow', 'pyspark', 'confluent_kafka', 'pyarrow', 'airflow_kafka_groups.admin')"
    code = f"import sys, airflow_kafka_groups.membership; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
