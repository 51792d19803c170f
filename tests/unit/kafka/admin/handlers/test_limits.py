"""What each handler allows: whether it changes groups, whether it is sent again after a loss, how often it is tried."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError, PartitionOffsetsError
from airflow_kafka_groups.kafka.admin import handlers
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, ChangingHandler
from airflow_kafka_groups.kafka.admin.handlers.change_group_offsets import AlterGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition

READS = {
    "DescribeGroupsHandler",
    "FetchTailsHandler",
    "FindCoordinatorHandler",
    "FindLeadersHandler",
    "ListGroupOffsetsHandler",
    "ListGroupsHandler",
    "ListOffsetsHandler",
}
"""The handlers whose APIs change nothing. A new one is either named here or marked as changing groups."""

HANDLERS = sorted(
    {
        one
        for module in pkgutil.iter_modules(handlers.__path__)
        for one in vars(importlib.import_module(f"{handlers.__name__}.{module.name}")).values()
        if isinstance(one, type) and issubclass(one, AdminHandler) and one not in (AdminHandler, ChangingHandler)
    },
    key=lambda one: one.__name__,
)


@pytest.mark.safety
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda one: one.__name__)
def test_every_handler_that_does_not_only_read_asks_the_policy_and_is_never_sent_again(handler: Any) -> None:
    reads = handler.__name__ in READS
    assert (handler.changes_groups, handler.resend_after_loss) == (not reads, reads)


def test_there_are_handlers_of_both_kinds() -> None:
    names = {handler.__name__ for handler in HANDLERS}
    assert names > READS
    assert "DeleteGroupsHandler" in names - READS


def test_only_unstable_offsets_and_listings_have_a_limit_of_tries() -> None:
    lost = ConnectionFailedError("b1:9092", "connection lost")
    unstable = PartitionOffsetsError("g", {TopicPartition("t", 0): lost}, GroupOffsets("g"))
    assert ListGroupsHandler().max_tries(lost) == 5
    assert ListGroupOffsetsHandler({}).max_tries(unstable) == 8
    assert ListGroupOffsetsHandler({}).max_tries(lost) is None
    assert DeleteGroupsHandler().max_tries(lost) is None
    assert AlterGroupOffsetsHandler({}).max_tries(lost) is None
    assert AlterGroupOffsetsHandler({}, gives_up=True).max_tries(lost) == 3, "who asks no other broker reads again"
    assert AlterGroupOffsetsHandler({}, gives_up=True).max_tries(unstable) is None
