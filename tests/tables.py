"""Tables of thousands of rows, checked as one test for each column: every row that fails is reported.

``pytest.mark.parametrize`` is the way to write a table, because ``-k`` then finds each row. The tables of all error
codes of all handlers have 5,000 rows, however: as tests of their own they take seven seconds instead of half a one.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def rows(name: str, values: Iterable[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each of the values as one of its arguments, all of them, and report those that fail."""
    listed = list(values)
    assert listed, f"a table without any {name} can never fail"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            failures: list[Exception] = []
            for value in listed:
                try:
                    test(**{name: value}, **others)
                except ExceptionGroup as group:  # a table within the table
                    failures += [_noted(error, name, value) for error in group.exceptions]
                except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
                    failures.append(_noted(error, name, value))
            if failures:
                raise ExceptionGroup(f"{len(failures)} row(s) of {test.__name__} fail", failures)

        signature = inspect.signature(test)
        rest = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        del run.__wrapped__  # and would look behind it
        return run

    return decorate


def _noted(error: Exception, name: str, value: object) -> Exception:
    error.add_note(f"with {name} = {value!r}")
    return error
