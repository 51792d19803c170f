"""Run a test for every value of a long table as one test: to collect thousands costs more than to run them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def for_every(name: str, values: Iterable[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a test each of the values as one of its arguments; the one it fails for is named in the failure."""
    listed = list(values)
    assert listed, f"a test for every {name} of none can never fail"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            for value in listed:
                try:
                    test(**{name: value}, **others)
                except BaseException as error:
                    error.add_note(f"with {name} = {value!r}")
                    raise

        signature = inspect.signature(test)
        rest = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        del run.__wrapped__  # and would look behind it
        return run

    return decorate
