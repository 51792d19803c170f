"""What a reader of the package needs: files and folders of a size to read, and every task shown somewhere."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import parsed

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_groups"


@cache
def modules() -> list[str]:
    """Return all modules with code, as paths within the package."""
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    return sorted(file.relative_to(PACKAGE).as_posix() for file in files)


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(PACKAGE.rglob("*.py")) if "\n__all__ = " in file.read_text()],
    ids=lambda file: file.relative_to(PACKAGE).as_posix(),
)
def test_all_is_what_a_module_offers(file: Path) -> None:
    tree = parsed(file)
    (said,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and named(node) == {"__all__"}
    )
    assert len(said) == len(set(said))
    # What is costly to import, a package imports when it is asked for: then only type checkers see the import.
    for_types = [node for each in tree.body if isinstance(each, ast.If) for node in each.body]
    offered = {name for node in (*tree.body, *for_types) for name in named(node) if not name.startswith("_")}
    offered -= {"annotations", "Any", "TYPE_CHECKING"}
    module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    assert [name for name in said if not hasattr(module, name)] == []
    made_here = {
        name for node in tree.body if not isinstance(node, ast.ImportFrom | ast.Import) for name in named(node)
    }
    if file.name == "__init__.py":
        assert set(said) == offered
    else:
        assert {name for name in made_here if not name.startswith("_")} <= set(said) <= offered


def test_no_file_is_long() -> None:
    lines = {module: len((PACKAGE / module).read_text().splitlines()) for module in modules()}
    too_long = {module: count for module, count in lines.items() if count > 600}
    assert too_long == {}, "move a concept of its own to a file of its own"


def test_no_folder_is_full() -> None:
    files = Counter(Path(module).parent.as_posix() for module in modules())
    full = {folder: count for folder, count in files.items() if count > 15}
    assert full == {}, "a folder has a listing to take in at a glance: merge files that say one thing, or make a folder"


def test_a_class_has_a_name_of_its_own() -> None:
    trees = [(module, parsed(PACKAGE / module)) for module in modules()]
    classes = [(node.name, module) for module, tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    twice = {name for name, count in Counter(name for name, _ in classes).items() if count > 1 and name[0] != "_"}
    found = [(name, module) for name, module in sorted(classes) if name in twice]
    assert found == [], "name each by what it is: who searches for a name looks for one class"


def test_nothing_but_the_package_is_shipped() -> None:
    kinds = (".py", ".j2", ".css", ".js", ".json", ".typed", ".airflowignore")
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    odd = [str(path) for path in files if (path.suffix or path.name) not in kinds]
    assert odd == [], "a leftover of a merge, or a kind of file to add here"


def test_quick_tests_start_no_program() -> None:
    starts = re.compile(r"\bsubprocess\.\w+\(|\bcreate_subprocess_\w+\(|\bos\.(fork|spawn\w+|posix_spawn)\(")
    quick = [file for folder in ("unit", "exhaustive") for file in (ROOT / "tests" / folder).rglob("*.py")]
    found = [file for file in quick if starts.search(file.read_text())]
    assert found == [], "move them to tests/component"


def tasks_and_triggers() -> list[str]:
    """Return the names of all operators, sensors and triggers that users can write into a DAG."""
    files = (file for folder in ("operators", "sensors", "triggers") for file in (PACKAGE / folder).glob("*.py"))
    made = re.compile(r"^class ([A-Z]\w+(?:Operator|Sensor|Trigger))\(", re.M)
    names = {name for file in files for name in made.findall(file.read_text())}
    return sorted(names - {"KafkaGroupsSensor", "ConditionTrigger"})  # a base, and what sensors defer to by themselves


@pytest.mark.parametrize("name", tasks_and_triggers())
def test_every_operator_sensor_and_trigger_is_shown(name: str) -> None:
    runs = [*(ROOT / "dags").glob("*.py"), *(ROOT / "tests/dags/examples").rglob("*.py")]
    word = re.compile(rf"\b{name}(\(|\.partial\()")
    assert any(word.search(file.read_text()) for file in runs), "in no DAG and no example"
    assert any(re.search(rf"\b{name}\b", file.read_text()) for file in (ROOT / "docs").rglob("*.md")), "in no page"


def named(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""

    def names() -> Iterator[str]:
        match node:
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name

    return set(names())
