"""The collector is as it was, whatever happened in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.admin.garbage import collection_paused


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    gc.enable() if was_enabled else gc.disable()


def test_it_pauses_and_goes_on() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "another call is still gathering"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collection_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_who_runs_without_it_goes_on_without_it() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()
