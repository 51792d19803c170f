"""What all tests share."""

import atexit
import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.lab.machine.scratch import use_memory
from tests.lab.workload.topics import Repeated

use_memory()

# The interpreter looks through all objects several times when it ends, and frees nothing that the system would not.
atexit.register(gc.freeze)

pytest_plugins = ["tests.forks", "tests.lab.fixtures"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=10)
settings.load_profile("quick")  # `make test` asks for the thorough one (--hypothesis-profile)

_COLLECTED_FROM = 20_000
_OUTSIDE = frozenset({"integration", "dags", "spark", "ui"})
_HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, and run them with one that looks less often.

    What 9,000 tests and their imports consist of lives until the end, and the collector would look through it again and
    again while it grows. Cycles that tests leave are small: memory is no reason to look for them every 700 objects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.unfreeze()  # everything is as old as if the collector had looked through it
        gc.set_threshold(_COLLECTED_FROM)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a test against real programs once more if it fails, and name it in the summary (R).

    Brokers, Airflow, Spark and a browser share two processors in some places, and a time-out there says little. Tests
    of what must never happen (marked ``safety``) get no second chance, and those without real programs need none.
    """
    for item in items:
        kind = item.path.relative_to(_HERE).parts[0]
        if kind in _OUTSIDE and not any(map(item.get_closest_marker, ("safety", "flaky"))):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set whether this is a second attempt."""
    Repeated.test = getattr(item, "execution_count", 1) > 1
