"""The table of members: what is kept of a group, how it is carried from snapshot to snapshot, and who used it last."""

import asyncio
import json
from collections.abc import Sequence
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
from airflow_kafka_groups.observe.snapshot.members import (
    LastClient,
    LastMembers,
    QuietSince,
    last_client_ids,
    last_members,
    member_rows,
    read_members,
)
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import MEMBER_COLUMNS
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking, broker_error, timeout
from tests.unit.change.scene import layout_in

SNAPSHOT = "20260301T120000Z-0123abcd"


def member(client_id: str = "c", host: str = "/10.0.0.1", **how: Any) -> MemberDescription:
    return MemberDescription(member_id=f"{client_id}-{host}", client_id=client_id, host=host, **how)


def group(*members: MemberDescription, group_id: str = "g", **how: Any) -> GroupDescription:
    facts: dict[str, Any] = {"protocol_type": "consumer", "protocol": "range", "coordinator": 1}
    return GroupDescription(group_id, GroupState.STABLE, GroupType.CLASSIC, **{**facts, **how}, members=members)


def rows_of(*members: MemberDescription, **how: Any) -> list[dict[str, Any]]:
    return list(member_rows(group(*members, **how), SNAPSHOT, NOW))


def take(admin: FakeAdmin, layout: Layout, days: float = 0, **how: Any) -> str:
    summary = asyncio.run(take_snapshot(admin, layout, now=Ticking(NOW + timedelta(days=days)), **how))
    return summary.snapshot_id


def table_of(layout: Layout, snapshot_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_members(layout, load_manifest(layout, snapshot_id)).to_pylist()
    return rows


def test_members_with_one_client_id_on_one_host_are_one_row() -> None:
    t0, u1 = TopicPartition("t", 0), TopicPartition("u", 1)
    rows = rows_of(
        member(subscribed_topics=("t",), assignment=(t0,)),
        member(subscribed_topics=None, assignment=(u1,)),
        member("other", subscribed_topics=None),
    )
    assert [row.keys() == {column.name for column in MEMBER_COLUMNS} for row in rows] == [True, True]
    both, other = rows
    assert (both["members"], both["clients"], both["client_members"]) == (3, 2, 2)
    assert both["topics"] == ["t", "u"], "subscribed or assigned"
    assert (other["client_id"], other["topics"]) == ("other", [])


def test_the_table_is_bounded_and_has_the_true_counts() -> None:
    long = "x" * 5_000
    topics = tuple(f"t{number:04}" for number in range(100))
    crowd = [member(f"c{number:03}", subscribed_topics=topics) for number in range(300)]
    rows = rows_of(*crowd, *([member("busiest", long)] * 8))
    assert len(rows) == module.CLIENTS_KEPT
    assert {(row["members"], row["clients"]) for row in rows} == {(308, 301)}
    first = rows[0]
    assert (first["client_id"], first["client_members"]) == ("busiest", 8), "those with the most members are kept"
    assert (len(first["host"]), len(rows[1]["topics"])) == (module.TEXT_LIMIT, module.TOPICS_KEPT)


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
    assert (row["topics"], row["client_members"]) == (["t"], 2)
    assert load_manifest(layout, snapshot_id).members.rows == 1


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


def test_a_group_that_cannot_be_described_keeps_its_last_members(tmp_path: Path) -> None:
    admin = FakeAdmin({f"g{number:02}": FakeGroup(members=1) for number in range(30)})
    layout = layout_in(tmp_path)
    first = take(admin, layout)
    admin.describe_errors = {
        name: KafkaGroupsError("") if name == "g00" else broker_error("GROUP_AUTHORIZATION_FAILED")
        for name in admin.groups
    }
    newest = take(admin, layout, 1)
    assert [(row["group_id"], row["snapshot_id"]) for row in table_of(layout, newest)] == [
        (name, first) for name in sorted(admin.groups)
    ]


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


@pytest.mark.parametrize("damage", ["missing", "edited", "manifest"])
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
        content["members"]["rows"] = "7"
        manifest.write_text(json.dumps(content))
    with pytest.raises(SnapshotError, match=r"members|damaged"):
        table_of(layout, second)
    newest = take(admin, layout, 2)
    assert [row["snapshot_id"] for row in table_of(layout, newest)] == [first]


def test_a_table_is_created_and_never_replaced(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    module.write_members(layout, SNAPSHOT, [], None, None)
    with pytest.raises(StorageError, match="never overwritten"):
        module.write_members(layout, SNAPSHOT, rows_of(member()), None, None)


NO_GAP = timedelta(0)


def test_the_last_members_of_groups(tmp_path: Path) -> None:
    admin = FakeAdmin({"idle": FakeGroup(members=2), "never": FakeGroup(), "live": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    first = take(admin, layout, 0)
    admin.groups["idle"].members = 0
    for day in (10, 20, 30):
        newest = take(admin, layout, day)
    found = last_members(layout, ["idle", "never", "live", "nobody"], CLUSTER_ID)
    assert {group_id: (last.snapshot_id, last.members) for group_id, last in found.items()} == {
        "idle": (first, 2),
        "live": (newest, 1),
    }
    idle = found["idle"]
    assert (idle.clients, idle.topics) == (1, ("t",))
    assert idle.sentence() == f"{NOW:%Y-%m-%d %H:%M} UTC: 2 member(s), c at 127.0.0.1; topics t"
    assert last_members(layout, [], CLUSTER_ID) == {}


def test_one_table_answers_when_older_snapshots_are_pruned(tmp_path: Path) -> None:
    admin = FakeAdmin({"g": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    first = take(admin, layout, 0)
    admin.groups["g"].members = 0
    second = take(admin, layout, 1)
    layout.manifest(first).unlink()
    layout.members(first).unlink()
    assert last_members(layout, ["g"], CLUSTER_ID)["g"].snapshot_id == first
    layout.members(second).unlink()
    assert last_members(layout, ["g"], CLUSTER_ID) == {}, "an unreadable table is none"


def test_the_last_client_is_not_known_while_a_newer_table_cannot_be_read(tmp_path: Path) -> None:
    admin = FakeAdmin({"g": FakeGroup(members=1), "never": FakeGroup()})
    layout = layout_in(tmp_path)
    take(admin, layout, 0)
    newest = take(admin, layout, 1)
    quiet = [QuietSince("g", NOW, None, None), QuietSince("never", NOW, None, None)]
    assert last_client_ids(layout, quiet, CLUSTER_ID, NO_GAP) == {"g": "c"}
    layout.members(newest).write_bytes(b"damaged")
    assert last_members(layout, ["g"], CLUSTER_ID), "the older one has it"
    assert last_client_ids(layout, quiet, CLUSTER_ID, NO_GAP) == {}, "a later client may be in the newer one"


@pytest.mark.parametrize(
    ("hours", "known"),
    [
        ((-9, None, 1), True),
        ((-9, 0, 1), True),
        ((None, None, 1), False),  # nobody knows since when the offsets stand
        ((1, None, 1), True),
        ((-9, 1, 1), True),  # the members that were seen moved them before they left
        ((-9, 2, 1), False),  # somebody moved them while the group was seen empty
        ((3, None, 1), False),
        ((-9, 1, None), False),
        ((-9, 5, 5), False),  # too long a time in which nobody looked
        ((-9, 0, 5), True),
    ],
)
@pytest.mark.safety
def test_the_last_client_is_known_only_if_nobody_else_can_have_moved_the_offsets(
    hours: tuple[int | None, int | None, int | None], known: bool
) -> None:
    quiet = QuietSince("g", *(None if each is None else NOW + timedelta(hours=each) for each in hours))
    assert quiet.is_after(NOW, timedelta(hours=4)) is known


@pytest.mark.safety
def test_a_group_of_another_cluster_in_the_folder_is_another_group(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"g": FakeGroup(members=1)}), layout_in(tmp_path)
    take(admin, layout, 0)
    other = FakeAdmin({"g": FakeGroup()})
    other.cluster = "another"
    take(other, layout, 1)
    seen = NOW + timedelta(days=1, minutes=1)
    quiet = [QuietSince("g", seen, None, seen)]
    assert last_client_ids(layout, quiet, "another", timedelta(days=4)) == {}
    assert last_members(layout, ["g"], "another") == {}
    assert last_members(layout, ["g"], CLUSTER_ID)["g"].client_id == "c"


def test_members_are_still_known_after_half_a_day_of_snapshots_without_them(tmp_path: Path) -> None:
    """The connection led to another cluster. Tables carry members on: what one of them lacked was lost for good."""
    admin, layout = FakeAdmin({"g": FakeGroup(members=1)}), layout_in(tmp_path)
    first = take(admin, layout, 0)
    admin.groups["g"].members = 0
    other = FakeAdmin({"g": FakeGroup()})
    other.cluster = "another"
    for hour in range(1, 13):
        take(other, layout, hour / 24)
    assert last_members(layout, ["g"], CLUSTER_ID)["g"].snapshot_id == first
    for day in (1, 2, 3, 4):
        take(admin, layout, day)
    assert last_members(layout, ["g"], CLUSTER_ID)["g"].snapshot_id == first


def test_tables_that_are_not_there_are_not_looked_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path)
    taken = [take(FakeAdmin({"g": FakeGroup(members=1)}), layout, hour / 24) for hour in range(13)]
    asked: list[str] = []

    def noted(_: Layout, snapshot_id: str) -> SnapshotManifest:
        asked.append(snapshot_id)
        return load_manifest(layout, snapshot_id)

    monkeypatch.setattr(module, "MOST_PASSED", 5)
    monkeypatch.setattr(module, "load_manifest", noted)
    assert module.newest_tables(layout, "another") == ([], [])
    assert asked == taken[:-6:-1]
    asked.clear()
    for snapshot_id in taken:
        layout.members(snapshot_id).unlink()
    monkeypatch.setattr(module, "MOST_PASSED", 1_000)
    assert len(module.newest_tables(layout, CLUSTER_ID)[1]) == len(asked) == 10


@pytest.mark.safety
@pytest.mark.parametrize("between", ["nothing", "unreadable", "pruned"])
def test_a_snapshot_between_the_members_and_the_empty_group_may_have_missed_somebody(
    tmp_path: Path, between: str
) -> None:
    admin, layout = FakeAdmin({"g": FakeGroup(members=1)}), layout_in(tmp_path)
    first = take(admin, layout, 0)
    if between == "unreadable":
        admin.describe_errors["g"] = timeout()
        take(admin, layout, 1)
        admin.describe_errors.clear()
    admin.groups["g"].members = 0
    for days in (2, 3):
        take(admin, layout, days)
    if between == "pruned":  # then nobody knows what was between
        layout.manifest(first).unlink()
    moved = NOW + timedelta(days=2, minutes=1)
    found = last_client_ids(layout, [QuietSince("g", NOW, moved, moved)], CLUSTER_ID, timedelta(days=4))
    assert found == ({"g": "c"} if between == "nothing" else {})


def test_without_a_limit_of_gaps_offsets_may_not_have_moved_at_all() -> None:
    at = NOW + timedelta(hours=1)
    assert not QuietSince("g", NOW, at, at).is_after(NOW, NO_GAP)


def test_the_last_client_is_that_of_all_members_and_complete() -> None:
    assert last_seen([("a", "x"), ("a", "y")], 2).client_id == "a"
    assert last_seen([("a", "x"), ("b", "y")], 2).client_id is None
    assert last_seen([("a", "x")], 2).client_id is None, "not all clients are kept"
    assert last_seen([("a" * 200, "x")], 1).client_id is None, "it may be cut"


def test_a_group_that_is_deleted_is_still_known_from_the_tables_before(tmp_path: Path) -> None:
    admin = FakeAdmin({"g": FakeGroup(members=1)})
    layout = layout_in(tmp_path)
    first = take(admin, layout, 0)
    admin.groups.clear()
    take(admin, layout, 1)
    assert last_members(layout, ["g"], CLUSTER_ID)["g"].snapshot_id == first


def test_without_a_snapshot_nobody_is_known(tmp_path: Path) -> None:
    assert last_members(layout_in(tmp_path), ["g"], CLUSTER_ID) == {}


def test_a_sentence_is_short_whatever_the_group_is() -> None:
    last = last_seen([("" if number == 0 else f"app-{number}", f"/10.0.0.{number}") for number in range(10)], 40)
    assert last.sentence() == (
        "2026-03-01 12:00 UTC: 40 member(s), (no client id) at 10.0.0.0, app-1 at 10.0.0.1, app-2 at 10.0.0.2 "
        "and 37 more; topics t0, t1, t2, t3, t4 and 5 more"
    )


def last_seen(clients: Sequence[tuple[str, str]], count: int) -> LastMembers:
    """Return the last members with these client ids on these hosts, the first of so many."""
    seen = tuple(
        LastClient(client_id=client_id, host=host, members=1, topics=frozenset({f"t{number}"}))
        for number, (client_id, host) in enumerate(clients)
    )
    return LastMembers(
        group_id="g", snapshot_id="20260301T120000Z-0123abcd", seen_at=NOW, members=count, clients=count, seen=seen
    )
