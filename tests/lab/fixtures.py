"""Pytest fixtures: one shared cluster for each Kafka version, started when the first test asks for it.

Tests share them, so they name their own groups and topics and never kill a broker; a test that kills starts a
``KafkaCluster`` of its own. Tests that use one carry the mark ``kafka(version)``: ``-m "not kafka"`` leaves them out.
A cluster ends as soon as no later test needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster

OFFSETS_PARTITIONS = 12
"""Of the offsets topic of these clusters, in place of 50: each is created, replicated, and read by many tests."""
_SHARED = {"kafka43": ("4.3.1", 1), "kafka41": ("4.1.0", 3), "kafka39": ("3.9.2", 1), "kafka28": ("2.8.2", 3)}
_STILL_NEEDED = pytest.StashKey[frozenset[str]]()
_running: dict[str, KafkaCluster] = {}


def _needs(item: pytest.Item) -> set[str]:
    """Return the names of the clusters that a test asks for, itself or by a parameter."""
    parameters = getattr(item, "callspec", None)
    named = (text for text in parameters.params.values() if isinstance(text, str)) if parameters else ()
    return _SHARED.keys() & {*getattr(item, "fixturenames", ()), *named}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a cluster with its version, and run the modules of each set of clusters together."""
    for item in items:
        for name in sorted(_needs(item)):
            item.add_marker(pytest.mark.kafka(_SHARED[name][0]))
            item.extra_keyword_matches.add(name)
    of_module: dict[Path, set[str]] = {}
    for item in items:
        of_module.setdefault(item.path, set()).update(_needs(item))
    items.sort(key=lambda item: (not of_module[item.path], sorted(of_module[item.path])))
    if not hasattr(config, "workerinput"):  # a process of xdist may run its tests in another order
        needed: frozenset[str] = frozenset()
        for item in reversed(items):
            needed |= _needs(item)
            item.stash[_STILL_NEEDED] = needed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the clusters that neither this test nor a later one needs: a broker costs something as long as it runs."""
    for name in _running.keys() - item.stash.get(_STILL_NEEDED, _running.keys()):
        _running.pop(name).stop()


def _run(name: str) -> Iterator[KafkaCluster]:
    version, brokers = _SHARED[name]
    config = {"offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    with KafkaCluster(version=version, brokers=brokers, config=config) as cluster:
        _running[name] = cluster
        yield cluster
    _running.pop(name, None)


@pytest.fixture(scope="session")
def kafka43() -> Iterator[KafkaCluster]:
    """Run Kafka 4.3.1 with one broker: the newest."""
    yield from _run("kafka43")


@pytest.fixture(scope="session")
def kafka41() -> Iterator[KafkaCluster]:
    """Run Kafka 4.1.0 with three brokers: the main one."""
    yield from _run("kafka41")


@pytest.fixture(scope="session")
def kafka39() -> Iterator[KafkaCluster]:
    """Run Kafka 3.9.2 with one broker: the last of the third line."""
    yield from _run("kafka39")


@pytest.fixture(scope="session")
def kafka28() -> Iterator[KafkaCluster]:
    """Run Kafka 2.8.2 with three brokers and ZooKeeper: too old for batched look-ups and fetches."""
    yield from _run("kafka28")
