from __future__ import annotations

import pytest

from tests.tables import rows


def test_every_row_that_fails_is_reported_and_named() -> None:
    seen: list[tuple[int, str, str]] = []

    @rows("number", [1, 2, 3])
    @rows("letter", "ab")
    def odd(number: int, letter: str, fixed: str) -> None:
        seen.append((number, letter, fixed))
        assert number == 2 or (number, letter) == (1, "a")

    with pytest.raises(ExceptionGroup, match=r"3 row\(s\) of odd fail") as caught:
        odd(fixed="x")
    assert len(seen) == 6, "a row that fails does not hide those behind it"
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["with letter = 'b'", "with number = 1"],
        ["with letter = 'a'", "with number = 3"],
        ["with letter = 'b'", "with number = 3"],
    ]


def test_a_table_that_holds_raises_nothing_and_one_without_rows_is_refused() -> None:
    rows("number", [1, 2])(lambda number: None)()
    with pytest.raises(AssertionError, match="can never fail"):
        rows("number", [])
