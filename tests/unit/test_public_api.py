"""Public names are exact, and loading the package stays cheap."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

from airflow_kafka_groups import admin

DESIGN_NAMES = (
    "find_coordinators",
    "list_groups",
    "describe_consumer_groups",
    "list_consumer_group_offsets",
    "delete_consumer_groups",
    "delete_consumer_group_offsets",
    "alter_consumer_group_offsets",
    "list_offsets",
)


def printed_by(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_all_is_exactly_what_the_admin_package_offers() -> None:
    offered = {name for name, value in vars(admin).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert offered == set(admin.__all__)


def test_the_design_names_are_methods_of_the_client() -> None:
    assert [name for name in DESIGN_NAMES if not callable(getattr(admin.AdminClient, name, None))] == []


def test_importing_the_package_imports_nothing_else() -> None:
    modules = "[m for m in sys.modules if m.startswith(('airflow', 'kio', 'aio'))]"
    assert printed_by(f"import sys, airflow_kafka_groups; print({modules})") == "['airflow_kafka_groups']"


def test_the_core_loads_no_airflow_and_no_other_client() -> None:
    heavy = "('airflow', 'pyspark', 'confluent_kafka', 'pyarrow', 'pandas')"
    code = f"import sys, airflow_kafka_groups.admin; print([m for m in {heavy} if m in sys.modules])"
    assert printed_by(code) == "[]"


def test_the_version_is_a_plain_literal() -> None:
    assert importlib.import_module("airflow_kafka_groups").__version__.count(".") == 2
