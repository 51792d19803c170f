"""Pytest fixtures: one shared cluster for each Kafka version, from the first test that asks for it until the last.

Tests share them, so they name their own groups and topics and never kill a broker; a test that kills starts a
``KafkaCluster`` of its own. Tests that use one carry the mark ``kafka(version)``: ``-m "not kafka"`` leaves them out.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster

OFFSETS_PARTITIONS = 12
"""Of the offsets topic of these clusters, in place of 50: each is created, replicated, and read by many tests."""
_SHARED = {"kafka44": ("4.4.0", 1), "kafka41": ("4.1.0", 3), "kafka39": ("3.9.2", 1), "kafka28": ("2.8.2", 3)}

_running: dict[str, KafkaCluster] = {}
_left: dict[str, set[str]] = {}
"""For each test that needs clusters and has not ended, their names."""


def _needs(item: pytest.Item) -> set[str]:
    """Return the names of the clusters that a test asks for, itself or by a parameter."""
    parameters = getattr(item, "callspec", None)
    named = (text for text in parameters.params.values() if isinstance(text, str)) if parameters else ()
    return _SHARED.keys() & {*getattr(item, "fixturenames", ()), *named}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a cluster with its version, and run modules together that need the same clusters.

    Those that need most come first.
    """
    of_module: defaultdict[Path, set[str]] = defaultdict(set)
    for item in items:
        for name in sorted(_needs(item)):
            item.add_marker(pytest.mark.kafka(_SHARED[name][0]))
            item.extra_keyword_matches.add(name)
            of_module[item.path].add(name)
    items.sort(key=lambda item: (-len(of_module[item.path]), sorted(of_module[item.path])))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which test needs which cluster."""
    _left.update((item.nodeid, needed) for item in session.items if (needed := _needs(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop the clusters that no later test needs: a broker that nobody asks takes 2 to 3 % of a processor.

    A test that failed and is run again has both its tries within this hook.
    """
    try:
        return (yield)
    finally:
        ended = _left.pop(item.nodeid, set())
        for name in ended.difference(*_left.values()) & _running.keys():
            _running.pop(name).stop()


def _run(name: str) -> Iterator[KafkaCluster]:
    version, brokers = _SHARED[name]
    config = {"offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    with KafkaCluster(version=version, brokers=brokers, config=config) as cluster:
        _running[name] = cluster
        yield cluster


@pytest.fixture(scope="session")
def kafka44() -> Iterator[KafkaCluster]:
    """Run Kafka 4.4.0 with one broker: the newest."""
    yield from _run("kafka44")


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
