"""A cluster that tests share ends with the last of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab import fixtures


class Cluster:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_a_cluster_stops_with_the_last_test_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = Cluster(), Cluster()
    monkeypatch.setattr(fixtures, "_running", {"kafka41": new, "kafka28": old})
    monkeypatch.setattr(fixtures, "_left", {"one": {"kafka41"}, "two": {"kafka41", "kafka28"}, "three": {"kafka28"}})
    stopped = []
    for test in ("without a cluster", "two", "one", "three"):
        fixtures.pytest_runtest_logfinish(test)
        stopped.append((new.stopped, old.stopped))
    assert stopped == [(False, False), (False, False), (True, False), (True, True)]


def test_a_cluster_is_needed_by_a_fixture_or_by_a_parameter() -> None:
    def needs(*fixture_names: str, **parameters: object) -> set[str]:
        item: Any = SimpleNamespace(fixturenames=fixture_names, callspec=SimpleNamespace(params=parameters))
        return fixtures._needs(item)

    assert needs("tmp_path", "kafka41") == {"kafka41"}
    assert needs("any_kafka", any_kafka="kafka28", number=3, text="t") == {"kafka28"}
    assert needs("tmp_path", text="t", unhashable=[]) == set()
