"""Functions that Spark's tasks run without this package: executors need pyarrow and numpy, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from pyspark import cloudpickle


def by_value(
    function: Callable[[Iterable[Any]], Iterator[Any]], *modules: ModuleType
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function over Arrow batches that is shipped by value.

    :param modules: its module, and the others of this package that it needs.
    """
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    return function
