"""The package offers what it says."""

from __future__ import annotations

import inspect

from airflow_kafka_groups.kafka import membership


def test_all_is_exactly_what_the_package_offers() -> None:
    offered = {
        name for name, value in vars(membership).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert offered == set(membership.__all__)
