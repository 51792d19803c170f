"""What a connection forbids is refused in the client itself, whoever uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.guard import GuardedAdminClient
from airflow_kafka_groups.hooks.settings import ConnectionSettings
from airflow_kafka_groups.models import OffsetAndMetadata, TopicPartition

CONFIG = ClientConfig(bootstrap_servers=(("b1", 9092),))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what reaches the client below the guard."""
    reached: list[str] = []

    async def change(self: AdminClient, group_ids: Iterable[str], **_: object) -> GroupResults[None]:
        wanted = list(group_ids)
        reached.extend(wanted)
        return GroupResults(GroupResult(group_id) for group_id in wanted)

    async def forget(self: AdminClient, group_id: str, partitions: object) -> None:
        reached.append(group_id)

    monkeypatch.setattr(AdminClient, "delete_consumer_groups", change)
    monkeypatch.setattr(AdminClient, "alter_consumer_group_offsets", change)
    monkeypatch.setattr(AdminClient, "delete_consumer_group_offsets", forget)
    return reached


def client(**switches: Any) -> GuardedAdminClient:
    return GuardedAdminClient(CONFIG, ConnectionSettings(conn_id="c", properties={}, **switches))


async def test_a_read_only_connection_deletes_nothing(sent: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="read-only"):
        await client(read_only=True).delete_consumer_groups(["a"])
    assert sent == []


async def test_a_protected_group_fails_alone(sent: list[str]) -> None:
    results = await client(protected_groups=("connect-*",)).delete_consumer_groups(["b", "connect-a", "a"])
    assert list(results) == ["b", "connect-a", "a"]
    assert list(results.failed) == ["connect-a"]
    assert "protected" in str(results.failed["connect-a"])
    assert sent == ["b", "a"]


async def test_a_connection_that_forbids_nothing_changes_nothing(sent: list[str]) -> None:
    assert not (await client().delete_consumer_groups(["a"])).failed
    assert sent == ["a"]


async def test_offsets_are_changed_only_where_that_is_allowed(sent: list[str]) -> None:
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(1)}
    guarded = client(protected_groups=("connect-*",))
    results = await guarded.alter_consumer_group_offsets({"connect-a": offsets, "a": offsets})
    assert list(results.failed) == ["connect-a"]
    await guarded.delete_consumer_group_offsets("b", list(offsets))
    with pytest.raises(KafkaGroupsError, match="protected"):
        await guarded.delete_consumer_group_offsets("connect-b", list(offsets))
    assert sent == ["a", "b"]
    with pytest.raises(ConfigurationError, match="read-only"):
        await client(read_only=True).alter_consumer_group_offsets({"a": offsets})
    with pytest.raises(ConfigurationError, match="read-only"):
        await client(read_only=True).delete_consumer_group_offsets("a", list(offsets))
    assert sent == ["a", "b"]


def test_every_call_that_changes_something_is_guarded() -> None:
    """A new changing method of AdminClient must be added to the guard, or to the list of reading ones here."""
    reading = {
        "cluster_id",
        "describe_cluster",
        "describe_consumer_groups",
        "find_coordinators",
        "list_consumer_group_lag",
        "list_consumer_group_offsets",
        "list_groups",
        "list_offsets",
        "stream_consumer_group_offsets",
    }
    public = {name for name in vars(AdminClient) if not name.startswith("_")}
    assert public - reading <= {name for name in vars(GuardedAdminClient) if not name.startswith("_")}
