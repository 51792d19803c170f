"""docs/howto/operators.md: what it says of all operators is true of each."""

import inspect
import re

from tests.pages import DOCS
from tests.reference.tasks import classes, own_bases

PAGE = (DOCS / "howto" / "operators.md").read_text()
HEADER = "| what | default of `dry_run` |\n|---|---|\n"


def defaults_of(argument: str) -> dict[str, object]:
    """Return the default that an argument has with each operator that has it: that of the nearest class."""
    found: dict[str, object] = {}
    for each in classes("operators"):
        for base in reversed(own_bases(each)):
            parameters = inspect.signature(vars(base)["__init__"]).parameters if "__init__" in vars(base) else {}
            if argument in parameters:
                found[each.__name__] = parameters[argument].default
    return found


def test_each_operator_with_a_dry_run_is_beside_its_default() -> None:
    """Nobody takes one that is not in the table for one that changes nothing."""
    rows = [row.strip("| ").split(" | ") for row in PAGE.partition(HEADER)[2].partition("\n\n")[0].splitlines()]
    said = {name: "true" in default for what, default in rows for name in re.findall(r"`(\w+Operator)`", what)}
    assert said == defaults_of("dry_run")
