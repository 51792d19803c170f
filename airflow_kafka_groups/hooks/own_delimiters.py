"""Templates in the delimiters that a DAG chooses for itself: arguments have none, and say so."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.storage.url_secrets import has_secret

_OF_LINES = "line_statement_prefix"
_DELIMITERS = {"variable_start_string": "{{", "block_start_string": "{%", _OF_LINES: ""}


def require_rendered(task: Any, literals: Collection[str], templates: Collection[str], parsed: Collection[str]) -> None:
    """Raise ``ConfigurationError`` for an argument with a template that is not rendered in a DAG with own delimiters.

    The pattern ``<< team >>-*`` keeps nothing, nor does ``{{ team }}-*`` in a DAG whose templates begin with ``<<``.

    :param literals: the names of arguments without a template.
    :param templates: those of arguments that have one.
    :param parsed: those of them whose templates are rendered one by one.
    """
    own: Mapping[str, Any] = (task.dag.jinja_environment_kwargs or {}) if task.has_dag() else {}
    for kind, usual in _DELIMITERS.items():
        if (start := own.get(kind)) in (None, "{{", "{%"):
            continue
        begins = re.compile((r"^[ \t\v]*" if kind == _OF_LINES else "") + re.escape(str(start)), re.MULTILINE)
        for name in (*literals, *templates):
            value, argument = vars(task)[name], getattr(type(task), name)
            texts = list(_texts(value))
            # All of what Airflow renders is rendered. A program may have templates of its own.
            as_written = texts if name in literals or name in parsed else []
            if any(map(begins.search, as_written)):
                why = f"has {start!r}, which begins a template in this DAG; only {{{{ and {{% do so here"
            elif usual and name in templates and argument.names and any(usual in each for each in texts):
                why = f"has {usual!r}, which begins no template in this DAG, and is not rendered"
            else:
                continue
            is_shown = argument.names and not isinstance(value, Mapping) and not has_secret(str(value))
            remedy = f"{why}: leave these names out of its jinja_environment_kwargs"
            raise ConfigurationError(name, value if is_shown else None, remedy)


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a value, with keys: a template there is meant as one, though Airflow renders none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts, chain(value.keys(), value.values())))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts, value))
