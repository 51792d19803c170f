"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.lab.topics import Repeated

pytest_plugins = ["tests.lab.fixtures"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")

_OUTSIDE = frozenset({"integration", "dags", "spark", "ui"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a test against real programs once more if it fails, and name it in the summary (R).

    Brokers, Airflow, Spark and a browser share two processors in some places, and a time-out there says little. Tests
    of what must never happen (marked ``safety``) get no second chance, and those without real programs need none.
    """
    here = Path(__file__).parent
    for item in items:
        kind = item.path.relative_to(here).parts[0]
        if kind in _OUTSIDE and item.get_closest_marker("safety") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell the lab whether this is a second try."""
    Repeated.test = getattr(item, "execution_count", 1) > 1
