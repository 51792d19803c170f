"""The reference of operators, sensors and triggers: import paths, and what docstrings say about each argument."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from airflow_kafka_groups.provider_info import get_provider_info
from tests.reference.markdown import page, parameters, summary, table

_ENDINGS = {"operators": "Operator", "sensors": "Sensor", "triggers": "Trigger"}
_INNER = {"ConditionTrigger"}
"""What sensors defer to by themselves."""


def classes(kind: str) -> list[type[Any]]:
    """Return the classes of ``operators``, ``sensors`` or ``triggers`` that DAG files import, by name."""
    found: list[type[Any]] = []
    for module_name in get_provider_info()[kind][0]["python-modules"]:
        module = importlib.import_module(module_name)
        found += [
            value
            for name, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module_name and name.endswith(_ENDINGS[kind])
        ]
    return sorted(
        (each for each in found if not each.__name__.startswith("_") and each.__name__ not in _INNER),
        key=lambda each: each.__name__,
    )


def tasks_page(kind: str) -> str:
    """Return the page of ``operators``, or of ``sensors`` and triggers."""
    if kind == "operators":
        return page(
            "Operators",
            "Every operator with its import path and arguments. [How to use them](../howto/operators.md) has examples. "
            "Arguments are keyword-only; *(templated)* ones are rendered by Airflow. Airflow's own arguments "
            "(`task_id`, `retries`, `outlets` …) come in addition.",
            *(_section(each) for each in classes("operators")),
        )
    return page(
        "Sensors and triggers",
        "Every sensor and trigger with its import path and arguments. [How to use them](../howto/sensors.md) has "
        "examples. Airflow's own arguments (`task_id`, `poke_interval`, `timeout`, `soft_fail` …) come in addition.",
        *(_section(each) for each in (*classes("sensors"), *classes("triggers"))),
    )


def _section(each: type[Any]) -> str:
    defaults = _defaults(each)
    rows = [(f"`{name}`", defaults.get(name, ""), said) for name, said in arguments(each).items()]
    import_line = f"```python\nfrom {each.__module__} import {each.__name__}\n```"
    return "\n\n".join(
        [f"## `{each.__name__}`", import_line, summary(each), table(("argument", "default", "meaning"), rows)]
    )


def arguments(each: type[Any]) -> dict[str, str]:
    """Return what is said about each argument: by the class itself, or by the nearest of its bases; its own first."""
    found: dict[str, str] = {}
    for base in own_bases(each):
        found |= {name: said for name, said in parameters(base).items() if name not in found}
    return found


def own_bases(each: type[Any]) -> list[type[Any]]:
    """Return the class and those of its bases that are this package's, the nearest first."""
    return [base for base in each.__mro__ if base.__module__.startswith("airflow_kafka_groups")]


def _defaults(each: type[Any]) -> dict[str, str]:
    """Return how the code writes the default of each argument; those of a class win over those of its bases."""
    defaults: dict[str, str] = {}
    for base in reversed(own_bases(each)):
        if "__init__" in vars(base):
            for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    required = parameter.default is parameter.empty
                    defaults[name] = "required" if required else f"`{parameter.default!r}`"
    return defaults
