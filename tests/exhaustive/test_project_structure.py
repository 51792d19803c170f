"""Tests mirror the code: where a module's tests are can be guessed from its name, or is said in ``ELSEWHERE``."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import parsed, statements

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_groups"

ELSEWHERE = {
    "arrow/": "unit/storage/test_output_checks.py",
    "storage/": "unit/storage/test_local_storage.py",
    "storage/job_files.py": "spark/staleness/test_two_judgements.py",
    "judge/lag/": "unit/judge/test_report.py",
    "observe/history/": "unit/observe/history/test_snapshots.py",
    "observe/offsets_topic/": "unit/observe/offsets_topic/test_offsets_log.py",
    "judge/staleness/": "unit/judge/staleness/test_observation_store.py",
    "backlog/": "unit/spark/unread/test_commit.py",
    "__main__.py": "unit/cli/test_main.py",
    "cli/": "unit/cli/test_main.py",
    "cli/commands/": "unit/cli/commands/test_reading.py",
    "cli/deleting.py": "unit/cli/commands/test_apply.py",
    "cli/commands/look/explain.py": "unit/cli/commands/test_prune_topics.py",
    "cli/commands/backup.py": "unit/cli/commands/test_plan.py",
    "links.py": "component/plugins/test_report_tab.py",
    "provider_info.py": "unit/hooks/test_provider_info.py",
    "kafka/admin/client/": "integration/admin/test_admin_client.py",
    "kafka/admin/client/operations.py": "unit/hooks/test_kafka_groups.py",
    "kafka/admin/engine/": "unit/kafka/admin/engine/test_driver.py",
    "kafka/admin/engine/runner.py": "unit/kafka/admin/client/test_faults.py",
    "kafka/admin/handlers/": "exhaustive/kafka/admin/handlers/test_fate_tables.py",
    "kafka/admin/handlers/list_offsets.py": "integration/admin/test_admin_client.py",
    "kafka/cluster/home.py": "unit/kafka/admin/client/test_home.py",
    "kafka/cluster/bootstrap.py": "unit/kafka/cluster/test_bootstrap.py",
    "kafka/cluster/servers.py": "unit/kafka/cluster/test_config.py",
    "contracts/": "unit/storage/test_formats_page.py",
    "storage/schemas.py": "unit/ledger/test_verdicts.py",
    "spark/names.py": "unit/hooks/connection/test_java_properties.py",
    "kafka/models/groups.py": "unit/test_models.py",
    "storage/local_files.py": "unit/storage/test_durable_files.py",
    "spark/names.py": "unit/doctor/test_spark.py",
    "exceptions/": "unit/test_exceptions.py",
    "hooks/fields.py": "unit/hooks/test_kafka_groups.py",
    "hooks/connection/probe.py": "unit/hooks/test_kafka_groups.py",
    "hooks/connection/java_properties.py": "spark/source/test_source_settings.py",
    "hooks/json_templates.py": "unit/operators/arguments/test_json_templates.py",
    "hooks/rendered_names.py": "unit/operators/arguments/test_own_delimiters.py",
    "hooks/rendered_names.py": "unit/operators/arguments/test_rendered_to_nothing.py",
    "change/backup/": "unit/change/backup/test_planned.py",
    "change/backup/make_backup.py": "unit/operators/test_drill.py",
    "change/deletion/": "unit/change/deletion/test_service.py",
    "ledger/audit.py": "exhaustive/operators/test_deletion_records.py",
    "change/file_pruning/prune.py": "exhaustive/operators/test_file_pruning.py",
    "change/file_pruning/file_sets.py": "exhaustive/operators/test_file_pruning.py",
    "change/file_pruning/snapshots_left.py": "unit/operators/pruning/test_what_pruning_keeps.py",
    "ledger/journal/": "unit/ledger/journal/test_journal.py",
    "change/keep_alive/": "unit/change/keep_alive/test_service.py",
    "change/plan/": "unit/change/plan/test_make_plan.py",
    "spark/names.py": "spark/session/test_program.py",
    "storage/job_storage.py": "component/hooks/test_plain_jobs.py",
    "change/plan/make_plan.py": "unit/operators/test_plan.py",
    "judge/policy/": "unit/judge/policy/test_policy_file.py",
    "change/prune_topics/": "unit/change/prune_topics/test_service.py",
    "report/": "unit/report/test_html.py",
    "report/html.py": "unit/operators/test_report.py",
    "ledger/changes.py": "unit/change/restore/test_apply.py",
    "change/restore/earlier_tries.py": "unit/operators/deleting/test_reset_again.py",
    "change/restore/drill.py": "unit/operators/test_drill.py",
    "change/restore/recorded.py": "unit/operators/deleting/test_restore.py",
    "change/restore/current_logs.py": "unit/change/restore/test_apply.py",
    "observe/snapshot/": "exhaustive/observe/snapshot/test_collect.py",
    "change/backlog.py": "unit/operators/test_spark.py",
    "membership/": "unit/kafka/membership/test_session.py",
    "models/": "unit/test_models.py",
    "operators/support/dag_form.py": "unit/operators/test_dag_params.py",
    "operators/offset_changes.py": "unit/operators/test_offset_changes.py",
    "operators/support/": "unit/operators/test_deletion.py",
    "operators/support/tries.py": "unit/operators/deleting/test_reset_again.py",
    "operators/support/question.py": "unit/operators/questions/test_question.py",
    "operators/support/tries.py": "unit/operators/deleting/test_not_set_back_twice.py",
    "plugins/": "component/plugins/test_report_tab.py",
    "protocol/": "unit/kafka/protocol/test_messages.py",
    "kafka/protocol/compact/": "exhaustive/kafka/protocol/test_hot_codecs.py",
    "kafka/protocol/apis/": "unit/kafka/protocol/test_membership_apis.py",
    "storage/durable_files.py": "unit/storage/test_storage.py",
    "kafka/protocol/api_versions.py": "unit/hooks/test_kafka_groups.py",
    "sensors/groups.py": "unit/sensors/test_deferral.py",
    "spark/": "spark/staleness/test_judge_staleness.py",
    "spark/hadoop_storage/": "spark/session/test_other_storage.py",
    "spark/session/this_machine.py": "spark/session/test_session_on_demand.py",
    "spark/__main__.py": "spark/submitted/test_spark_submit.py",
    "spark/application.py": "spark/submitted/test_spark_submit.py",
    "spark/bundle.py": "spark/submitted/test_spark_submit.py",
    "spark/backlog/": "spark/backlog/test_process_backlog.py",
    "spark/backlog/output.py": "spark/backlog/test_backlog_kills.py",
    "spark/backlog/archive.py": "spark/backlog/test_archive_backlog.py",
    "spark/jobs/": "spark/backlog/test_process_backlog_input.py",
    "spark/kafka/": "spark/backlog/test_process_backlog.py",
    "spark/unread/recreated.py": "spark/backlog/test_recreated_topics.py",
    "spark/unread/request.py": "spark/backlog/test_archive_backlog.py",
    "spark/kafka/timestamps.py": "spark/lag/test_lag_report.py",
    "spark/offsets_topic/": "spark/offsets_topic/test_commit_history.py",
    "spark/source/": "spark/source/test_source.py",
    "transport/": "unit/kafka/transport/test_tls.py",
    "kafka/transport/aiokafka_connection.py": "integration/admin/test_security.py",
    "kafka/transport/base.py": "unit/kafka/cluster/test_client.py",
    "triggers/": "unit/triggers/test_poll.py",
    "triggers/watch.py": "unit/triggers/test_events.py",
}
"""Modules and folders (with a slash at the end) without tests of their name, and the file that tests them."""


@cache
def modules() -> list[str]:
    """Return all modules with code, as paths within the package."""
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    return sorted(file.relative_to(PACKAGE).as_posix() for file in files)


@cache
def mirror(module: str) -> Path:
    """Return the file with the tests of a module. Those of Spark are in folders by subject."""
    folder, _, name = module.rpartition("/")
    if folder.startswith("spark"):
        return next((ROOT / "tests/spark").rglob(f"test_{name}"), ROOT / "tests/spark" / f"test_{name}")
    places = [ROOT / "tests" / kind / folder / f"test_{name}" for kind in ("unit", "exhaustive", "component")]
    return next((place for place in places if place.exists()), places[0])


@cache
def covered_by(module: str) -> str | None:
    """Return the key of ``ELSEWHERE`` that is for a module: itself, or the innermost folder."""
    folders = [f"{parent.as_posix()}/" for parent in Path(module).parents]
    return next((key for key in (module, *folders) if key in ELSEWHERE), None)


@pytest.mark.parametrize("module", modules())
def test_every_module_has_tests(module: str) -> None:
    if mirror(module).exists():
        assert module not in ELSEWHERE, "it has tests of its own by now"
        return
    key = covered_by(module)
    assert key is not None, f"write {mirror(module).relative_to(ROOT)}, or say in ELSEWHERE which file tests it"
    assert dotted(module) in reached(ROOT / "tests" / ELSEWHERE[key]), f"{ELSEWHERE[key]} does not import it"


@pytest.mark.parametrize("key", ELSEWHERE)
def test_what_is_said_of_modules_without_tests_is_needed_and_true(key: str) -> None:
    assert (ROOT / "tests" / ELSEWHERE[key]).is_file()
    assert (PACKAGE / key).exists()
    assert any(covered_by(module) == key and not mirror(module).exists() for module in modules()), "it is not needed"


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


def test_no_module_is_long() -> None:
    lines = {module: len((PACKAGE / module).read_text().splitlines()) for module in modules()}
    too_long = {module: count for module, count in lines.items() if count > 300}
    assert too_long == {}, "move a concept of its own to a file of its own"


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


def dotted(module: str) -> str:
    return f"{PACKAGE.name}.{module.removesuffix('.py').replace('/', '.')}"


@cache
def reached(file: Path) -> frozenset[str]:
    """Return the modules that a file imports, and those that these import: of the package and of the tests."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        for name in imports_of(waiting.pop()) - found:
            found.add(name)
            if path := file_of(name):
                waiting.append(path)
    return frozenset(found)


@cache
def file_of(name: str) -> Path | None:
    """Return the file of a module, or ``None`` if the name is that of something in a module."""
    path = ROOT / name.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


@cache
def imports_of(file: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in statements(parsed(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in names if name.split(".")[0] in (PACKAGE.name, "tests"))


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
