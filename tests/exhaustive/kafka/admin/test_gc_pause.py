"""The collector is as it was, whatever happened in between."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.kafka.admin.results import collection_paused


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


class Kept:
    """An object that the collector traverses."""


def test_what_many_results_were_gathered_into_is_not_looked_through_again_at_once() -> None:
    gc.collect()
    with collection_paused():
        kept = [Kept() for _ in range(20_000)]
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation=generation)}
    assert not young & set(map(id, kept))


def test_it_thaws_nothing_that_somebody_else_has_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collection_paused():
            kept = [Kept() for _ in range(20_000)]
        assert gc.get_freeze_count() >= frozen - 100  # some are gone by themselves
        assert len(kept) == 20_000
    finally:
        gc.unfreeze()


def test_cycles_among_what_was_gathered_are_collected_later() -> None:
    with collection_paused():
        kept = [Kept() for _ in range(20_000)]
        kept[0].itself = kept[0]  # type: ignore[attr-defined]
        gone = weakref.ref(kept[0])
    del kept
    gc.collect()
    assert gone() is None


def test_who_runs_without_it_goes_on_without_it() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def test_a_service_whose_calls_overlap_for_ever_does_not_grow_for_ever() -> None:
    before, runs = collection_paused(), list[bool]()
    before.__enter__()
    for _ in range(6):
        after = collection_paused()
        after.__enter__()
        before.__exit__(None, None, None)
        runs.append(gc.isenabled())
        before = after
    before.__exit__(None, None, None)
    assert runs.count(True) == 3, "every other call lets it look"
    assert gc.isenabled()
