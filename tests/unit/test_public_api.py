"""Public names are exact."""

from __future__ import annotations

import importlib

from airflow_kafka_groups import admin

DESIGN_NAMES = (
    "find_coordinators",
    "list_groups",
    "describe_consumer_groups",
    "list_consumer_group_offsets",
    "delete_consumer_groups",
    "delete_consumer_group_offsets",
    "alter_consumer_group_offsets",
    "list_offsets",
)


def test_the_design_names_are_methods_of_the_client() -> None:
    assert [name for name in DESIGN_NAMES if not callable(getattr(admin.AdminClient, name, None))] == []


def test_the_version_is_a_plain_literal() -> None:
    assert importlib.import_module("airflow_kafka_groups").__version__.count(".") == 2
