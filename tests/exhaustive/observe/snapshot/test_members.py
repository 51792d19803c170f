"""The table of members: what is kept of a group, how it is bounded, and how it is carried from snapshot to snapshot."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError, SnapshotError, StorageError
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, GroupType, MemberDescription, TopicPartition
from airflow_kafka_groups.observe.snapshot import members as module
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.members import SeenMembers, read_members
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import MEMBER_COLUMNS
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking, broker_error
from tests.unit.change.scene import layout_in

SNAPSHOT = "20260301T120000Z-0123abcd"


def member(client_id: str = "c", host: str = "/10.0.0.1", **how: Any) -> MemberDescription:
    return MemberDescription(member_id=f"{client_id}-{host}", client_id=client_id, host=host, **how)


def group(*members: MemberDescription, group_id: str = "g", **how: Any) -> GroupDescription:
    facts: dict[str, Any] = {"protocol_type": "consumer", "protocol": "range", "coordinator": 1}
    return GroupDescription(group_id, GroupState.STABLE, GroupType.CLASSIC, **{**facts, **how}, members=members)


def rows_of(*members: MemberDescription, **how: Any) -> list[dict[str, Any]]:
    seen = SeenMembers(SNAPSHOT)
    seen.add(group(*members, **how), NOW)
    return seen.rows


def take(admin: FakeAdmin, layout: Layout, days: float = 0, **how: Any) -> str:
    summary = asyncio.run(take_snapshot(admin, layout, now=Ticking(NOW + timedelta(days=days)), **how))
    return summary.snapshot_id


def table_of(layout: Layout, snapshot_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_members(layout, load_manifest(layout, snapshot_id)).to_pylist()
    return rows


def test_members_with_one_client_id_on_one_host_are_one_row() -> None:
    t0, u1 = TopicPartition("t", 0), TopicPartition("u", 1)
    rows = rows_of(
        member(subscribed_topics=("u", "t"), assignment=(t0,), group_instance_id="static-1"),
        member(subscribed_topics=("t",), assignment=(u1,)),
        member("other", subscribed_topics=None),
    )
    assert [row.keys() == {column.name for column in MEMBER_COLUMNS} for row in rows] == [True, True]
    both, other = rows
    assert (both["members"], both["clients"], both["client_members"]) == (3, 2, 2)
    assert (both["topics"], both["topic_count"]) == (["t", "u"], 2)
    assert (both["assigned_topics"], both["assigned_partitions"]) == (["t", "u"], 2)
    assert (both["static_members"], both["instance_ids"]) == (1, ["static-1"])
    assert (other["client_id"], other["topics"], other["topic_count"]) == ("other", None, None)


def test_the_table_is_bounded_and_has_the_true_counts() -> None:
    long = "x" * 5_000
    topics = tuple(f"t{number:04}" for number in range(100))
    crowd = [member(f"c{number:03}", subscribed_topics=topics) for number in range(300)]
    named = [member("busiest", long, group_instance_id=f"{number:02}{long}") for number in range(8)]
    rows = rows_of(*crowd, *named, protocol=long)
    assert len(rows) == module.CLIENTS_KEPT
    assert {(row["members"], row["clients"]) for row in rows} == {(308, 301)}
    first = rows[0]
    assert (first["client_id"], first["client_members"]) == ("busiest", 8), "those with the most members are kept"
    assert (len(first["host"]), len(first["protocol"])) == (module.TEXT_LIMIT, module.TEXT_LIMIT)
    assert (first["static_members"], len(first["instance_ids"])) == (8, module.INSTANCES_KEPT)
    assert max(map(len, first["instance_ids"])) == module.TEXT_LIMIT
    assert (len(rows[1]["topics"]), rows[1]["topic_count"]) == (module.TOPICS_KEPT, 100)


def test_client_ids_that_are_alike_up_to_the_limit_are_one() -> None:
    (row,) = rows_of(member("c" * 300 + "1"), member("c" * 300 + "2"))
    assert (row["clients"], row["client_members"]) == (1, 2)


def test_a_snapshot_asks_nothing_more_for_its_members(tmp_path: Path) -> None:
    admin = FakeAdmin({"live": FakeGroup(members=2), "idle": FakeGroup()})
    layout = layout_in(tmp_path)
    snapshot_id = take(admin, layout)
    assert admin.asked("describe") == ["live"]
    (row,) = table_of(layout, snapshot_id)
    assert (row["group_id"], row["snapshot_id"], row["client_id"], row["host"]) == (
        "live",
        snapshot_id,
        "c",
        "/127.0.0.1",
    )
    assert (row["topics"], row["client_members"], row["protocol"]) == (["t"], 2, "range")
    entry = load_manifest(layout, snapshot_id).members
    assert entry is not None
    assert (entry.rows, entry.groups, entry.seen, entry.not_described) == (1, 1, 1, 0)


def test_a_group_that_is_left_keeps_its_last_members_for_as_long_as_it_exists(tmp_path: Path) -> None:
    admin = FakeAdmin({"g": FakeGroup(members=1), "gone": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    first = take(admin, layout)
    admin.groups["g"].members = 0
    del admin.groups["gone"]
    for day in range(1, 8):
        newest = take(admin, layout, day)
    assert [(row["group_id"], row["snapshot_id"]) for row in table_of(layout, newest)] == [("g", first)]
    admin.groups["g"].members = 3
    newest = take(admin, layout, 9)
    assert [(row["snapshot_id"], row["members"]) for row in table_of(layout, newest)] == [(newest, 3)]


def test_what_a_snapshot_did_not_look_for_is_carried_on(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup(members=1), "b": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    take(admin, layout)
    hidden = admin.groups.pop("b")
    admin.missing_brokers = {2: broker_error("COORDINATOR_LOAD_IN_PROGRESS")}
    newest = take(admin, layout, 1)
    assert [row["group_id"] for row in table_of(layout, newest)] == ["a", "b"], "nobody knows that b is gone"
    admin.missing_brokers = {}
    admin.groups["b"] = hidden
    newest = take(admin, layout, 2, include=["a"])
    assert [row["group_id"] for row in table_of(layout, newest)] == ["a", "b"], "b was not asked for"


def test_a_group_that_cannot_be_described_is_noted_and_the_snapshot_is_taken(tmp_path: Path) -> None:
    admin = FakeAdmin({f"g{number:02}": FakeGroup(members=1) for number in range(30)})
    layout = layout_in(tmp_path)
    first = take(admin, layout)
    admin.describe_errors = {
        name: KafkaGroupsError("") if name == "g00" else broker_error("GROUP_AUTHORIZATION_FAILED")
        for name in admin.groups
    }
    newest = take(admin, layout, 1)
    entry = load_manifest(layout, newest).members
    assert entry is not None
    assert (entry.seen, entry.groups, entry.not_described, len(entry.reasons)) == (0, 30, 30, 20)
    assert all(entry.reasons.values())
    assert entry.carried_from == (first,)


def test_of_two_snapshots_at_a_time_neither_loses_what_the_other_saw(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup(members=1), "b": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    take(admin, layout)
    admin.groups["a"].members = 0
    other = take(admin, layout, 1)  # the one below began before it was there
    aside = layout.manifest(other).read_bytes()
    layout.manifest(other).unlink()
    admin.groups["b"].members = 0
    take(admin, layout, 1.1)
    layout.manifests.joinpath(f"{other}.json").write_bytes(aside)  # type: ignore[attr-defined]
    newest = take(admin, layout, 2)
    assert {row["group_id"]: row["snapshot_id"] for row in table_of(layout, newest)}["b"] == other


@pytest.mark.parametrize("damage", ["missing", "edited", "other rows", "manifest"])
def test_a_damaged_table_is_refused_and_the_one_before_it_used(tmp_path: Path, damage: str) -> None:
    admin = FakeAdmin({"g": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    first = take(admin, layout)
    admin.groups["g"].members = 0
    second = take(admin, layout, 1)
    path, manifest = layout.members(second), Path(str(layout.manifest(second)))
    if damage == "missing":
        path.unlink()
    elif damage == "edited":  # and still a table of members
        table = pq.read_table(path.open("rb"))
        edited = pa.array(["somebody else"], pa.string())
        place = table.schema.get_field_index("client_id")
        pq.write_table(table.set_column(place, table.schema.field("client_id"), edited), str(path))
    else:
        content = json.loads(manifest.read_text())
        content["members"]["rows"] = 7 if damage == "other rows" else "7"
        manifest.write_text(json.dumps(content))
    with pytest.raises(SnapshotError, match=r"members|damaged"):
        table_of(layout, second)
    newest = take(admin, layout, 2)
    entry = load_manifest(layout, newest).members
    assert entry is not None
    assert (entry.carried_from, list(entry.not_carried)) == ((first,), [second])
    assert [row["snapshot_id"] for row in table_of(layout, newest)] == [first]


def test_a_table_is_created_and_never_replaced(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    seen = SeenMembers(SNAPSHOT)
    module.write_members(layout, seen, None, None)
    seen.add(group(member()), NOW)
    with pytest.raises(StorageError, match="never overwritten"):
        module.write_members(layout, seen, None, None)
