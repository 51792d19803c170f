"""Which of the shared clusters a test asks for, and that a cluster ends with the last test that does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab import fixtures


class Cluster:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_a_cluster_stops_when_the_last_test_that_needs_it_has_made_all_its_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, old = Cluster(), Cluster()
    monkeypatch.setattr(fixtures, "_running", {"kafka41": new, "kafka28": old})
    monkeypatch.setattr(fixtures, "_left", {"one": {"kafka41"}, "two": {"kafka41", "kafka28"}, "three": {"kafka28"}})
    seen = []
    for test in ("without a cluster", "two", "one", "three"):
        item: Any = SimpleNamespace(nodeid=test)
        protocol = fixtures.pytest_runtest_protocol(item)
        next(protocol)  # all tries of the test, where pytest-rerunfailures makes several
        before = (new.stopped, old.stopped)
        with pytest.raises(StopIteration):
            protocol.send(True)
        seen.append((before, (new.stopped, old.stopped)))
    both, first, none = (False, False), (True, False), (True, True)
    assert seen == [(both, both), (both, both), (both, first), (first, none)]


def test_the_modules_that_need_the_most_clusters_run_first() -> None:
    def item(path: str, *fixture_names: str) -> Any:
        return SimpleNamespace(
            path=path, fixturenames=fixture_names, add_marker=lambda mark: None, extra_keyword_matches=set()
        )

    none, one, two = item("a"), item("b", "kafka41"), item("c", "kafka28")
    also_two, also_none = item("c", "kafka41"), item("b")
    items = [none, one, two, also_none, also_two]
    fixtures.pytest_collection_modifyitems(items)
    assert items == [two, also_two, one, also_none, none]


def test_a_cluster_is_needed_by_a_fixture_or_by_a_parameter() -> None:
    def needs(*fixture_names: str, **parameters: object) -> set[str]:
        item: Any = SimpleNamespace(fixturenames=fixture_names, callspec=SimpleNamespace(params=parameters))
        return fixtures._needs(item)

    assert needs("tmp_path", "kafka41") == {"kafka41"}
    assert needs("any_kafka", any_kafka="kafka28", number=3, text="t") == {"kafka28"}
    assert needs("tmp_path", text="t", unhashable=[]) == set()
