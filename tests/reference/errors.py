"""The reference of the exceptions: the tree that their module draws, and a link to the cure of each."""

from __future__ import annotations

import inspect
import re

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.exceptions import KafkaGroupsError
from tests.reference.markdown import page, summary, table


def public_errors() -> list[type[KafkaGroupsError]]:
    """Return all public exceptions in the order in which the module lists them."""
    return [getattr(exceptions, name) for name in exceptions.__all__]


def errors_page() -> str:
    """Return the page."""
    tree = re.search(r"::\n\n(.*?)\n\n\S", inspect.cleandoc(exceptions.__doc__ or ""), re.DOTALL)
    if tree is None:
        raise ValueError("airflow_kafka_groups.exceptions draws no tree")
    rows = []
    for error in public_errors():
        name = error.__name__
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        rows.append((f"[`{name}`](../help/troubleshooting.md#{name.lower()})", bases, summary(error)))
    return page(
        "Exceptions",
        "Every exception that the package raises, importable from `airflow_kafka_groups.exceptions`. "
        "[Troubleshooting](../help/troubleshooting.md) has cause and remedy of each.",
        f"```text\n{inspect.cleandoc(tree[1])}\n```",
        table(("exception", "bases", "meaning"), rows),
    )
