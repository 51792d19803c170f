"""The operators, sensors and triggers that DAG files import, and what docstrings say about each argument."""

import importlib
import inspect
from typing import Any

from airflow_kafka_groups.provider_info import get_provider_info
from tests.reference.markdown import parameters

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


def arguments(each: type[Any]) -> dict[str, str]:
    """Return what is said about each argument: by the class itself, or by the nearest of its bases; its own first."""
    found: dict[str, str] = {}
    for base in own_bases(each):
        found |= {name: said for name, said in parameters(base).items() if name not in found}
    return found


def own_bases(each: type[Any]) -> list[type[Any]]:
    """Return the class and those of its bases that are this package's, the nearest first."""
    return [base for base in each.__mro__ if base.__module__.startswith("airflow_kafka_groups")]
