"""Templates in the delimiters that a DAG chooses for itself: arguments have none, and say so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError

_OF_LINES = "line_statement_prefix"
_DELIMITERS = ("variable_start_string", "block_start_string", _OF_LINES)


def require_rendered(task: Any, literals: Mapping[str, Any]) -> None:
    """Raise ``ConfigurationError`` for an argument with a template in the DAG's own delimiters: it was read as it is.

    The pattern ``<< team >>-*`` keeps nothing.
    """
    own: Mapping[str, Any] = (task.dag.jinja_environment_kwargs or {}) if task.has_dag() else {}
    for kind, start in ((name, own.get(name)) for name in _DELIMITERS):
        if start in (None, "{{", "{%"):
            continue
        begins = re.compile((r"^[ \t\v]*" if kind == _OF_LINES else "") + re.escape(str(start)), re.MULTILINE)
        for name, value in literals.items():
            if any(map(begins.search, _texts(value))):
                remedy = (
                    f"has {start!r}, which begins a template in this DAG; only {{{{ and {{% do so here: leave these "
                )
                are_names = getattr(type(task), name).names and not isinstance(value, Mapping)
                shown = value if are_names else None  # the words of a program, or its properties, may be secret
                raise ConfigurationError(name, shown, f"{remedy}names out of its jinja_environment_kwargs")


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a value, with keys: a template there is meant as one, though Airflow renders none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts, chain(value.keys(), value.values())))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts, value))
