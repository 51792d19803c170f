"""The DAG files of the package: copy them into a DAGs folder, or import one from a DAG file of your own.

An installed package has them beside this file. In a checkout, their home is ``dags/``, which becomes part of this
package's path. The ``.airflowignore`` keeps Airflow, which loads the folders ``example_dags`` of providers by itself
where ``load_examples`` is on, from loading them a second time beside a copy.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1] / "dags"


def folder() -> Path:
    """Return the folder with the DAG files.

    Raises ``FileNotFoundError`` if the package was installed without them.
    """
    for place in (_HERE, _CHECKOUT):
        if (place / "cleanup_stale_groups.py").is_file():
            return place
    raise FileNotFoundError(f"the DAG files are missing in {_HERE}: install airflow-kafka-groups again, from its wheel")


def dag_files() -> list[Path]:
    """Return the DAG files, sorted by name. Raises ``FileNotFoundError`` as ``folder`` does."""
    return sorted(path for path in folder().glob("*.py") if path.name != "__init__.py")


if _CHECKOUT.is_dir() and not (_HERE / "cleanup_stale_groups.py").is_file():
    __path__.append(str(_CHECKOUT))
