"""What the operators' docstrings say of each argument: the words of commands' help and of the DAGs' forms, too.

They are read from the source, since the command line must not wait for Airflow's import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_CLASS = re.compile(r'^class (\w+)\(([^)]*)\):\n    """(.*?)"""', re.M | re.S)
_PARAM = re.compile(r"^    :param (\w+): (.*?)\n(?=    :param |\n|    $)", re.M | re.S)
_DEFAULT = re.compile(r"[.;] [Dd]efault\b.*$")


def described(operator: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return what an operator's docstring, and those of its bases, say of each argument.

    :param operator: the name of its class.
    :param names: what to call other arguments; what is not in it stays as it is.
    """
    return {
        name: re.sub(r"``(.+?)``", lambda found: names.get(found[1], found[1].strip('"') or found[1]), text)
        for name, text in _texts(operator).items()
    }


def without_default(text: str) -> str:
    """Return a sentence of what is described without its default, as where a form has it filled in."""
    return f"{text[0].upper()}{_DEFAULT.sub('', text[1:])}."


def _texts(operator: str) -> dict[str, str]:
    if operator not in _classes():  # Airflow's own
        return {}
    bases, own = _classes()[operator]
    return {name: text for base in reversed(bases) for name, text in _texts(base).items()} | own


@cache
def _classes() -> dict[str, tuple[list[str], dict[str, str]]]:
    folder = Path(__file__).parents[1]
    sources = [path.read_text("utf-8") for path in (*folder.glob("*.py"), *folder.glob("support/*.py"))]
    return {
        found[1]: (
            [base.strip() for base in found[2].split(",")],
            {param[1]: _plain(param[2]) for param in _PARAM.finditer(found[3])},
        )
        for source in sources
        for found in _CLASS.finditer(source)
    }


def _plain(text: str) -> str:
    return " ".join(text.split()).removesuffix(".").replace(" (templated)", "")
