"""The reference of the exceptions: those of their module, and those of other modules."""

from __future__ import annotations

import re

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.exceptions import KafkaGroupsError
from tests.pages import ROOT
from tests.reference.markdown import first_sentence, listing, page, summary


def public_errors() -> list[type[KafkaGroupsError]]:
    """Return all public exceptions in the order in which the module lists them."""
    return [getattr(exceptions, name) for name in exceptions.__all__]


def other_errors() -> list[tuple[str, str]]:
    """Return the public exceptions that other modules define beside what raises them, each with its module."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "airflow_kafka_groups").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not module.startswith(exceptions.__name__):
            found += [(name, module) for name in re.findall(r"^class ([A-Z]\w*Error)\(", path.read_text(), re.M)]
    return found


def errors_page() -> str:
    """Return the page."""
    rows = []
    for error in public_errors():
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__ if base is not KafkaGroupsError)
        rows.append((f"`{error.__name__}`", bases, first_sentence(summary(error))))
    return page(
        "Exceptions",
        "The exceptions of tasks, the command line and the Python core, importable from "
        "`airflow_kafka_groups.exceptions`, with their bases beside "
        "`KafkaGroupsError`, and below those of Spark's jobs and of single modules. "
        "[Troubleshooting](../help/troubleshooting.md) has what their messages do not say.",
        listing(rows),
        "## Of Spark's jobs, and of single modules",
        listing(((f"`{name}`", f"`{module}`") for name, module in other_errors())),
    )
