"""Which of the shared clusters a test asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.lab import fixtures


def test_a_cluster_is_needed_by_a_fixture_or_by_a_parameter() -> None:
    def needs(*fixture_names: str, **parameters: object) -> set[str]:
        item: Any = SimpleNamespace(fixturenames=fixture_names, callspec=SimpleNamespace(params=parameters))
        return fixtures._needs(item)

    assert needs("tmp_path", "kafka41") == {"kafka41"}
    assert needs("any_kafka", any_kafka="kafka28", number=3, text="t") == {"kafka28"}
    assert needs("tmp_path", text="t", unhashable=[]) == set()
