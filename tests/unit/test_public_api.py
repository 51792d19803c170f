"""Public names are exact, and loading the package stays cheap."""

from __future__ import annotations

import importlib
import subprocess
import sys

from airflow_kafka_groups import admin


def test_all_is_exactly_what_the_admin_package_offers() -> None:
    offered = {
        name for name, value in vars(admin).items() if not name.startswith("_") and not hasattr(value, "__path__")
    }
    modules = {name for name in offered if type(getattr(admin, name)).__name__ == "module"}
    assert offered - modules == set(admin.__all__)


def test_the_design_names_are_methods_of_the_client() -> None:
    names = [
        "find_coordinators",
        "list_groups",
        "describe_consumer_groups",
        "list_consumer_group_offsets",
        "delete_consumer_groups",
        "list_offsets",
    ]
    assert [name for name in names if not callable(getattr(admin.AdminClient, name, None))] == []


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, airflow_kafka_groups; print([m for m in sys.modules if m.startswith(('airflow', 'kio', 'aiokafka'))])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['airflow_kafka_groups']"


def test_the_core_loads_no_airflow_and_no_other_client() -> None:
    code = (
        "import sys, airflow_kafka_groups.admin, airflow_kafka_groups.maintenance; "
        "print([m for m in ('airflow', 'pyspark', 'confluent_kafka', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_version_is_a_plain_literal() -> None:
    assert importlib.import_module("airflow_kafka_groups").__version__.count(".") == 2
