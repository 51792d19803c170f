"""A throw-away Airflow home for tests: set before airflow is imported for the first time, once a process."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

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
    return home
