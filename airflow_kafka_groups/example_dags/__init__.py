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


def copy_dag(source: Path, folder: Path, force: bool) -> str:
    """Copy a DAG file to a folder, and return what became of it: unchanged, kept, overwritten or copied.

    :param force: whether a file that is there and differs is overwritten.
    """
    target, content = folder / source.name, source.read_bytes()
    if target.is_file() and target.read_bytes() == content:
        return "unchanged"
    exists = target.exists()
    if exists and not force:
        return "kept"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return "overwritten" if exists else "copied"


if _CHECKOUT.is_dir() and not (_HERE / "cleanup_stale_groups.py").is_file():
    __path__.append(str(_CHECKOUT))
