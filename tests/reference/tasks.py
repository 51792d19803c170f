"""The reference of operators, sensors and triggers: import paths, and what docstrings say about each argument."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from airflow_kafka_groups.provider_info import get_provider_info
from tests.reference.markdown import Row, first_sentence, listing, page, parameters, shared_by, summary, without

_ENDINGS = {"operators": "Operator", "sensors": "Sensor", "triggers": "Trigger"}
_INNER = {"ConditionTrigger"}
"""What sensors defer to by themselves."""
_SHARED = 3
"""An argument of so many classes is in one table for all of them."""


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
        return _page(
            "Operators",
            "Every operator with its import path and arguments, which are keyword-only and, unless it says "
            "*not templated*, rendered by Airflow. [How to use them](../howto/operators.md) has examples. Airflow's "
            "own arguments (`task_id`, `retries`, `outlets` …) come in addition.",
            classes("operators"),
        )
    return _page(
        "Sensors and triggers",
        "Every sensor and trigger with its import path and arguments. Airflow renders those of sensors unless it says "
        "*not templated*. [How to use them](../howto/sensors.md) has "
        "examples. Airflow's own arguments (`task_id`, `poke_interval`, `timeout`, `soft_fail` …) come in addition.",
        [*classes("sensors"), *classes("triggers")],
    )


def _page(title: str, introduction: str, all_classes: list[type[Any]]) -> str:
    rows_of = {each.__name__: _rows(each) for each in all_classes}
    shared = shared_by(rows_of, _SHARED)
    return page(
        title,
        introduction,
        "## Shared arguments",
        listing(shared),
        *(_section(each, without(rows_of[each.__name__], shared)) for each in all_classes),
    )


def _rows(each: type[Any]) -> list[Row]:
    defaults = _defaults(each)
    return [(f"`{name}`", defaults.get(name, ""), _meaning(each, said)) for name, said in arguments(each).items()]


def _meaning(each: type[Any], said: str) -> str:
    """Return the first sentence, without the default, which stands apart, but with whether it is no template."""
    first = re.sub(r"[;,]? default:? [^,;.()]*$", "", first_sentence(said).replace(" (templated)", "").rstrip("."))
    return f"{first} (not templated)" if hasattr(each, "template_fields") and "(templated" not in said else first


def _section(each: type[Any], shown: str) -> str:
    said, *_ = summary(each).split("\n\n")
    return f"## `{each.__name__}`\n\n{said} Import from `{each.__module__}`.\n\n{shown}"


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
                    value = "required" if required else f"`{parameter.default!r}`"
                    defaults[name] = "" if parameter.default is None else value
    return defaults
