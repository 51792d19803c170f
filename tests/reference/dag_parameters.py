"""The reference of the shipped DAGs and their parameters, as Airflow parses them."""

import os
from pathlib import Path
from typing import Any

from tests.reference.markdown import Row, code, first_sentence, listing, page, shared_by, without

DAGS = Path(__file__).resolve().parents[2] / "dags"
_SHARED = 2
"""A parameter of so many DAGs is in one table for all of them."""
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}


def parsed() -> dict[str, Any]:
    """Return the shipped DAGs by id, with the defaults that they have where nothing is set."""
    from airflow.dag_processing.dagbag import DagBag

    own = os.environ.pop("KAFKA_GROUPS_DEFAULTS", None)
    try:
        bag = DagBag(dag_folder=str(DAGS), collect_dags=True)
    finally:
        if own is not None:
            os.environ["KAFKA_GROUPS_DEFAULTS"] = own
    if bag.import_errors:
        raise ValueError(str(bag.import_errors))
    return dict(sorted(bag.dags.items()))


def dags_page() -> str:
    dags = parsed()
    rows_of = {name: [_row(param, dag.params.get_param(param)) for param in dag.params] for name, dag in dags.items()}
    shared = shared_by(rows_of, _SHARED)
    return page(
        "DAGs and their parameters",
        "The DAGs that the package contains, and the parameters of each (in brackets: the form's "
        "label and the default): fields of the form under *Trigger*, keys of a "
        "run's configuration, and names in `KAFKA_GROUPS_DEFAULTS`, which sets them for scheduled runs. An unknown "
        "name is an error. `airflow-kafka-groups copy-dags` copies the files; `from airflow_kafka_groups.example_dags "
        "import …` imports one. The form says more of each.",
        "## Shared parameters",
        "The form of a DAG shows which of them it has.",
        listing(shared),
        *(_section(name, dag, without(rows_of[name], shared)) for name, dag in dags.items()),
    )


def _section(name: str, dag: Any, shown: str) -> str:
    tasks = ", ".join(f"`{task.task_id}`" for task in dag.topological_sort())
    return f"## `{name}`\n\n{dag.description} Schedule: {_schedule(dag)}. Tasks: {tasks}.\n\n{shown}"


def _schedule(dag: Any) -> str:
    if dag.schedule is None:
        return "none, trigger it"
    return f"`{getattr(dag.timetable, 'expression', dag.schedule)}`"


def _row(name: str, param: Any) -> Row:
    schema = param.schema
    limits = [f"{words} {schema[key]:,}" for key, words in _LIMITS.items() if key in schema]
    allowed = [f"one of {', '.join(map(str, schema['enum']))}"] if "enum" in schema else []
    description = first_sentence(param.description or "")
    notes = "; ".join(note for note in [*allowed, *limits] if note)
    shown = "`$AIRFLOW_HOME/kafka-groups`" if name == "storage_path" else code(param.value)
    return (f"`{name}`", schema.get("title", ""), shown, f"{description} ({notes})" if notes else description)
