"""A throw-away Airflow home for tests: set before airflow is imported for the first time, once a process."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
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


class UnchangedDags:
    """Parse a folder of DAGs, and write them to the database, only if something has changed since the last time.

    ``dag.test()`` does both before each run, for all shipped DAGs: three quarters of a second in each of the 50 runs.

    :param parse: Airflow's ``BundleDagBag``.
    :param write: Airflow's ``sync_bag_to_db``.
    """

    def __init__(self, parse: Callable[..., Any], write: Callable[..., None]) -> None:
        self._parse, self._write = parse, write
        self._parsed: dict[object, Any] = {}
        self._written: dict[str, Any] = {}

    def parse(self, dag_folder: str | Path, **named: Any) -> Any:
        """Return the bag of DAGs of a folder or file, as it is now and with the defaults as they are now."""
        path = Path(dag_folder)
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        states = [(str(file), state.st_mtime_ns, state.st_size) for file in files for state in [file.stat()]]
        defaults = sorted(item for item in os.environ.items() if item[0].startswith("KAFKA_GROUPS"))
        key = repr((dag_folder, named, states, defaults))
        if key not in self._parsed:
            self._parsed[key] = self._parse(dag_folder=dag_folder, **named)
        return self._parsed[key]

    def write(self, bag: Any, bundle_name: str, *arguments: Any, **named: Any) -> None:
        """Write a bag, unless it is the last that was written of its bundle."""
        if self._written.get(bundle_name) is not bag:
            self._write(bag, bundle_name, *arguments, **named)
            self._written[bundle_name] = bag


def write_unchanged_dags_once() -> None:
    """Let the runs of DAGs in this process share the parsing and writing of all shipped DAGs."""
    from airflow.dag_processing import dagbag

    unchanged = UnchangedDags(dagbag.BundleDagBag, dagbag.sync_bag_to_db)
    dagbag.BundleDagBag = unchanged.parse  # type: ignore[misc, assignment]
    dagbag.sync_bag_to_db = unchanged.write  # type: ignore[assignment]
