"""The demo calls a group kept alive only if its control was forgotten, after the retention, and no offset changed."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.demo import sleepers as module
from tests.demo.sleepers import CONTROL, KEPT, RETENTION_S, Sleepers, fall_asleep

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


def test_a_copy_that_was_interrupted_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make took the folder for a whole one, and each demo failed until somebody removed it."""
    broker = SimpleNamespace(folder=tmp_path / "cluster", bootstrap="", kill=lambda node: None)
    (broker.folder / "broker-1" / "data").mkdir(parents=True)
    (broker.folder / "broker-1" / "data" / "log").write_text("records")
    monkeypatch.setattr(module, "_cluster", lambda looks, data: nullcontext(broker))
    for name in ("create_topics", "produce", "LiveConsumer"):
        monkeypatch.setattr(module, name, MagicMock())
    place, copied = tmp_path / "asleep", shutil.copytree

    def interrupted(*given: Any) -> None:
        copied(*given)
        raise KeyboardInterrupt

    for copy in (interrupted, copied, interrupted):
        monkeypatch.setattr(shutil, "copytree", copy)
        with pytest.raises(KeyboardInterrupt) if copy is interrupted else nullcontext():
            fall_asleep(place)
        assert place.exists() is (copy is copied)
    monkeypatch.setattr(shutil, "copytree", copied)
    fall_asleep(place)
    assert (place / "data" / "log").read_text() == "records"
