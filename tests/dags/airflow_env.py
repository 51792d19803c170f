"""A throw-away Airflow home for tests: set before airflow is imported for the first time, once a process."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_MARK = "KAFKA_GROUPS_TEST_AIRFLOW_HOME"


def prepare_airflow() -> Path:
    """Point Airflow at a temporary home with SQLite and this repository's DAGs; give the home."""
    if made := os.environ.get(_MARK):
        return Path(made)
    if "airflow" in sys.modules:
        raise RuntimeError("airflow was imported before its test environment was set")
    home = Path(tempfile.mkdtemp(prefix="kafka-groups-airflow-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
        del os.environ[name]
    os.environ |= {
        _MARK: str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    check_each_schema_once()
    return home


def check_each_schema_once() -> None:
    """Let this process check the schema of a DAG's parameter once, and not each time that the parameter is read.

    ``dag.test()`` parses and writes all shipped DAGs, and jsonschema takes a hundred times as long to check a schema as
    to check a value by it: half a second in each of the 50 runs of DAGs. A schema that is refused is refused each time.
    """
    from jsonschema import Draft202012Validator

    check, accepted = Draft202012Validator.check_schema, set()

    def check_once(schema: Any, *arguments: Any, **named: Any) -> None:
        key = repr((schema, arguments, named))
        if key not in accepted:
            check(schema, *arguments, **named)
            accepted.add(key)

    Draft202012Validator.check_schema = staticmethod(check_once)
