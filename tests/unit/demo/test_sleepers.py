"""The demo calls a group kept alive only if its control was forgotten, after the retention, and no offset changed."""

from typing import Any

import pytest

from tests.demo.sleepers import CONTROL, KEPT, RETENTION_S, Sleepers

OFFSETS = {("t", 0): 5}
ALL: dict[str, Any] = {"slept": RETENTION_S + 1.0, "found": {KEPT: OFFSETS, CONTROL: {}}}


def sleepers(**found: Any) -> Sleepers:
    made = Sleepers()
    made.committed = {KEPT: OFFSETS, CONTROL: OFFSETS}
    for name, value in {**ALL, **found}.items():
        setattr(made, name, value)
    return made


def test_a_group_that_outlived_its_control_is_kept_alive() -> None:
    assert sleepers().kept_alive() == 1


@pytest.mark.parametrize(
    "found",
    [
        {"slept": RETENTION_S - 1.0},
        {"found": {KEPT: {}, CONTROL: {}}},
        {"found": {KEPT: {("t", 0): 6}, CONTROL: {}}},
        {"found": {KEPT: OFFSETS, CONTROL: OFFSETS}},
        {"found": {}},
    ],
)
def test_anything_else_is_not(found: dict[str, Any]) -> None:
    assert sleepers(**found).kept_alive() == 0
