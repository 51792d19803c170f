"""The contracts run wherever Python does: nothing but the standard library and each other."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from airflow_kafka_groups import storage as contracts
from tests.sources import parsed

FOLDER = Path(contracts.__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_module_imports_the_standard_library_and_contracts_only(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    arrow = {"pyarrow"} if path.stem == "arrow_schema" else set()  # within functions, for callers that have it
    assert {name for name in foreign if not name.startswith(contracts.__name__)} == arrow
