"""The demo can fail: two that both deleted, or one that was skipped without a word, are not called well."""

import pytest

from tests.demo.two_cleanups import Ended, wrong

WINNER = Ended(name="a", deleted=3)
SKIPPED = Ended(name="b", skipped="the lease is held by 'cleanup.delete, run a, on vm'")
LATE = Ended(name="b", gone=3)


@pytest.mark.parametrize(
    ("ended", "waits"), [([WINNER, SKIPPED], False), ([SKIPPED, WINNER], False), ([LATE, WINNER], True)]
)
def test_one_that_deletes_and_one_that_is_skipped_or_late_is_well(ended: list[Ended], waits: bool) -> None:
    assert wrong(ended, 3, waits=waits) is None


@pytest.mark.parametrize(
    ("ended", "waits"),
    [
        ([WINNER, Ended(name="b", deleted=3)], True),
        ([Ended(name="a", deleted=2), Ended(name="b", deleted=1)], True),
        ([Ended(name="a", deleted=2), LATE], True),
        ([SKIPPED, SKIPPED], False),
        ([WINNER, Ended(name="b", skipped="busy")], False),
        ([WINNER, SKIPPED], True),
        ([WINNER, Ended(name="b", gone=2)], True),
        ([WINNER], False),
    ],
)
def test_anything_else_is_said(ended: list[Ended], waits: bool) -> None:
    assert wrong(ended, 3, waits=waits)
