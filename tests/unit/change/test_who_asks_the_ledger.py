"""Who asks the ledger has a test of what each sign of life does to its decision: those of the table."""

from importlib import import_module

import grimp

from tests.layers import PACKAGE
from tests.unit.operators.test_signs_of_life import DECISIONS, NO_DECISIONS


def test_the_table_has_no_empty_column() -> None:
    """Whoever asks the ledger from now on needs a row: a test of what each sign does to the decision."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None, exclude_type_checking_imports=True)
    asking = graph.find_modules_that_directly_import(f"{PACKAGE}.ledger.ledger")
    known = {*NO_DECISIONS, *(f"change.{decision}" for decision in DECISIONS)}
    assert {module.removeprefix(f"{PACKAGE}.") for module in asking} == known
    for module, name in DECISIONS.values():
        assert callable(getattr(import_module(module), name))
