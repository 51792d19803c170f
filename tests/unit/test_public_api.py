"""Public names are exact."""

import importlib

from airflow_kafka_groups import kafka as admin
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

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


def test_what_other_clients_call_listing_is_listing_here() -> None:
    """Python would suggest ``delete_consumer_groups`` to whoever types their name."""
    for offered in (admin.AdminClient, KafkaGroupsHook):
        assert offered.list_consumer_groups is offered.list_groups


def test_the_version_is_a_plain_literal() -> None:
    assert importlib.import_module("airflow_kafka_groups").__version__.count(".") == 2
