import asyncio
import os
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    KafkaGroupsError,
    PartitionOffsetsError,
    SnapshotError,
    StorageError,
)
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, snapshot_ids
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, arrow_schema
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, Ticking, broker_error, offsets_of, timeout
from tests.fakes.refusing_path import RefusingPath
from tests.fakes.snapshot_groups import groups_in
from tests.unit.change.scene import layout_in


async def rows_of(admin: FakeAdmin, folder: Path, **how: Any) -> tuple[list[dict[str, Any]], Any]:
    summary = await take_snapshot(admin, layout_in(folder), now=Ticking(), **how)
    return pq.read_table(Path(summary.data) / "part-00000.parquet").to_pylist(), summary


def short(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("group_id", "state", "members", "topic", "partition", "committed_offset", "log_start", "log_end", "error")
    return tuple(row[name] for name in names)


async def test_a_row_for_each_group_topic_and_partition(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("busy", ("t", 0, 5), state=GroupState.STABLE, members=2)
    admin.add("dead", ("t", 0, 3), ("t", 1, 0), ("gone", 0, 9))
    admin.add("bare", type=GroupType.CONSUMER)
    admin.ends = {TopicPartition("t", 0): (1, 10), TopicPartition("t", 1): (0, 0)}
    rows, summary = await rows_of(admin, tmp_path, airflow_run="manual__2026-03-01T12:00:00+00:00")
    assert [short(row) for row in rows] == [
        ("bare", "Empty", 0, None, None, None, None, None, None),
        ("busy", "Stable", 2, "t", 0, 5, 1, 10, None),
        ("dead", "Empty", 0, "t", 0, 3, 1, 10, None),
        ("dead", "Empty", 0, "t", 1, 0, 0, 0, None),
        ("dead", "Empty", 0, "gone", 0, 9, None, None, None),
    ]
    assert {(row["cluster"], row["run_id"]) for row in rows} == {("prod", summary.snapshot_id)}
    assert [row["leader_epoch"] for row in rows] == [None, 3, 3, 3, 3]
    assert [row["metadata"] for row in rows] == [None, "", "", "", ""]
    assert [row["group_type"] for row in rows] == ["consumer", "classic", "classic", "classic", "classic"]
    assert [row["group_epoch"] for row in rows] == [1, None, None, None, None]
    assert all(row["observed_at"].tzinfo is not None and row["coordinator"] == 1 for row in rows)
    assert summary.to_json()["groups"] == 3
    assert summary.partitions_without_ends == 1
    manifest = SnapshotReader(layout_in(tmp_path), summary.snapshot_id).manifest
    assert manifest.kafka_cluster_id == CLUSTER_ID
    assert manifest.airflow_run == "manual__2026-03-01T12:00:00+00:00"
    assert manifest.complete
    assert manifest.started_at < rows[0]["observed_at"] < manifest.observed_at


async def test_each_partition_is_asked_for_its_ends_once(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for number in range(50):
        admin.add(f"g{number}", ("t", 0, number), ("t", 1, number))
    await rows_of(admin, tmp_path)
    assert sorted(admin.asked("list_offsets")) == ["t-0", "t-0", "t-1", "t-1"]


async def test_the_columns_are_the_contract(tmp_path: Path) -> None:
    summary = await take_snapshot(FakeAdmin(), layout_in(tmp_path), now=Ticking())
    schema = pq.read_schema(Path(summary.data) / "part-00000.parquet")
    assert schema.remove_metadata().equals(arrow_schema(SNAPSHOT_COLUMNS)), "as docs/formats.md says"


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, 7, 100])
async def test_large_snapshots_have_several_files_and_no_group_is_in_two_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    admin = FakeAdmin()
    for number, partitions in enumerate((1, 2, 0, 3, 1, 1)):
        admin.add(f"g{number}", *(("t", partition, 5) for partition in range(partitions)))
    monkeypatch.setattr("airflow_kafka_groups.observe.snapshot.table.ROWS_OF_A_FILE", most)
    summary = await take_snapshot(admin, layout_in(tmp_path), now=Ticking())
    reader = SnapshotReader(layout_in(tmp_path), summary.snapshot_id)
    files = [pq.read_table(Path(summary.data) / file.name)["group_id"].to_pylist() for file in reader.manifest.files]
    assert [len(file) for file in files] == [file.rows for file in reader.manifest.files]
    assert [*chain.from_iterable(files)] == [f"g{number}" for number in (0, 1, 1, 2, 3, 3, 3, 4, 5)]
    assert all(len(file) <= most or len({*file}) == 1 for file in files)
    assert not any({*one} & {*other} for one, other in pairwise(files))
    assert all(len(one) + other.count(other[0]) > most for one, other in pairwise(files)), "none is smaller than needed"
    assert [group.group_id for group in reader.summaries()] == [f"g{number}" for number in range(6)]


async def test_a_cluster_without_groups_is_a_snapshot_too(tmp_path: Path) -> None:
    rows, summary = await rows_of(FakeAdmin(), tmp_path)
    assert rows == []
    assert list(groups_in(SnapshotReader(layout_in(tmp_path), summary.snapshot_id))) == []


ERRORS = [code for code in ErrorCode if code is not ErrorCode.none]


@pytest.fixture(scope="module")
def read_with_every_error(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, bool]]:
    """Take snapshots of a group for each error code, with which its offsets are refused.

    Return each group's error in its only row and in the summary, and whether it is read back as one that failed.
    """
    found: dict[str, tuple[str, str, bool]] = {}
    for codes in (ERRORS[::2], ERRORS[1::2]):  # a summary names no more than a hundred
        admin = FakeAdmin()
        for code in codes:
            admin.add(code.name, ("t", 0, 5))
            admin.offset_errors[code.name] = broker_error(code.name.upper())
        folder = tmp_path_factory.mktemp("errors")
        rows, summary = asyncio.run(rows_of(admin, folder))
        assert summary.failed_groups == len(summary.failed) == len(rows) == len(codes)
        read = {
            group.group_id: bool(group.errors)
            for group in groups_in(SnapshotReader(layout_in(folder), summary.snapshot_id))
        }
        found |= {
            row["group_id"]: (row["error"], summary.failed[row["group_id"]], read[row["group_id"]]) for row in rows
        }
    return found


@pytest.mark.parametrize("code", ERRORS)
def test_no_error_reads_as_no_offsets(code: ErrorCode, read_with_every_error: dict[str, tuple[str, str, bool]]) -> None:
    in_row, in_summary, failed_when_read = read_with_every_error[code.name]
    assert code.name.upper() in in_row
    assert code.name.upper() in in_summary
    assert failed_when_read


@pytest.mark.parametrize("problem", [timeout(), KafkaGroupsError("")])
async def test_an_error_without_words_is_still_an_error(problem: KafkaGroupsError, tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))
    admin.offset_errors["g"] = problem
    rows, _ = await rows_of(admin, tmp_path)
    assert rows[0]["error"]


async def test_a_group_that_got_no_answer_is_an_error(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))
    admin.silent.add("g")
    rows, _ = await rows_of(admin, tmp_path)
    assert "no result" in rows[0]["error"]


async def test_a_partition_error_stands_beside_the_offsets_that_could_be_read(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g")
    partial = offsets_of("g", ("t", 0, 5))
    problem = {TopicPartition("t", 1): broker_error("UNSTABLE_OFFSET_COMMIT")}
    admin.offset_errors["g"] = PartitionOffsetsError("g", problem, partial)
    rows, summary = await rows_of(admin, tmp_path)
    assert [(row["partition"], row["committed_offset"], row["error"] is None) for row in rows] == [
        (0, 5, True),
        (1, None, False),
    ]
    assert summary.failed_groups == 1


async def test_share_and_streams_groups_have_their_offsets_and_their_epoch(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("s", ("t", 0, 4), type=GroupType.SHARE, protocol_type="share")
    admin.add("k", ("t", 0, 6), type=GroupType.STREAMS, protocol_type="streams")
    admin.add("g", ("t", 0, 5))
    rows, _ = await rows_of(admin, tmp_path)
    found = [(row["group_id"], row["committed_offset"], row["group_epoch"]) for row in rows]
    assert found == [("g", 5, None), ("k", 6, 1), ("s", 4, 1)]
    assert sorted(admin.asked("describe")) == ["k", "s"]


async def test_states_come_from_the_coordinators_when_the_listing_has_none(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("empty", ("t", 0, 5))
    admin.add("busy", ("t", 0, 5), state=GroupState.STABLE, members=1)
    admin.add("secret", ("t", 0, 5))
    admin.describe_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    admin.without_states = True
    rows, _ = await rows_of(admin, tmp_path)
    found = [(row["group_id"], row["state"], row["members"], row["group_type"], row["error"]) for row in rows]
    assert found == [
        ("busy", "Stable", 1, "unknown", None),
        ("empty", "Empty", 0, "unknown", None),
        ("secret", "Unknown", None, "unknown", None),
    ]


async def test_members_are_unknown_when_they_cannot_be_counted(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("busy", ("t", 0, 5), state=GroupState.STABLE, members=1)
    admin.silent.add("busy")
    rows, _ = await rows_of(admin, tmp_path)
    assert (rows[0]["state"], rows[0]["members"]) == ("Stable", None)


async def test_a_missing_broker_makes_it_incomplete(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))
    admin.missing_brokers = {TopicPartition("__consumer_offsets", 7): KafkaGroupsError("no leader"), 3: timeout()}
    _, summary = await rows_of(admin, tmp_path)
    assert not summary.complete
    manifest = SnapshotReader(layout_in(tmp_path), summary.snapshot_id).manifest
    missing = {"3": "no answer within 30 s", "__consumer_offsets-7": "no leader"}
    assert (manifest.complete, dict(manifest.missing_brokers)) == (False, missing)


async def test_patterns_and_the_empty_id(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for name in ("a-1", "a-2", "b-1", ""):
        admin.add(name, ("t", 0, 1))
    rows, summary = await rows_of(admin, tmp_path, include=["a-*", "b-*"], exclude=["*-2"])
    assert [row["group_id"] for row in rows] == ["a-1", "b-1"]
    scope = SnapshotReader(layout_in(tmp_path), summary.snapshot_id).manifest.scope
    assert scope == {"include": ["a-*", "b-*"], "exclude": ["*-2"]}
    rows, _ = await rows_of(admin, tmp_path)
    assert len(rows) == 4


async def test_google_s_prober_is_listed_and_nobody_may_describe_it(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for name in ("mine", "__internal_google_managed_kafka_prober_cg", "team-x", "denied"):
        admin.add(name, ("t", 0, 5))
        if name != "mine":
            admin.offset_errors[name] = broker_error("GROUP_AUTHORIZATION_FAILED")
    rows, summary = await rows_of(admin, tmp_path, protected=["team-*"])
    assert [row["group_id"] for row in rows if row["error"] is not None] == sorted({*admin.offset_errors})
    assert (summary.groups, list(summary.failed), summary.failed_groups) == (4, ["denied"], 1)
    admin.offset_errors = {"__internal_google_managed_kafka_prober_cg": broker_error("NOT_COORDINATOR")}
    assert (await rows_of(admin, tmp_path))[1].failed_groups == 1, "no answer is not a refusal"


async def test_ids_asked_for_by_name_that_do_not_exist_are_reported(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))
    admin.describe_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    admin.offset_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    admin.describe_errors["new-spelling"] = broker_error("GROUP_ID_NOT_FOUND")
    rows, summary = await rows_of(admin, tmp_path, group_ids=["nowhere", "g", "secret", "g", "new-spelling"])
    assert summary.not_found == ("nowhere", "new-spelling")
    assert [(row["group_id"], row["error"] is None) for row in rows] == [("g", True), ("secret", False)]
    assert SnapshotReader(layout_in(tmp_path), summary.snapshot_id).manifest.scope["group_ids"] == [
        "nowhere",
        "g",
        "secret",
        "new-spelling",
    ]


@pytest.mark.parametrize("bad", [{"group_ids": []}, {"group_ids": [1]}, {"include": "a*"}, {"exclude": ["re:("]}])
async def test_bad_input_is_refused_before_anything_is_asked(bad: dict[str, Any], tmp_path: Path) -> None:
    admin = FakeAdmin()
    with pytest.raises(ConfigurationError):
        await take_snapshot(admin, layout_in(tmp_path), **bad)
    assert admin.calls == []
    assert os.listdir(tmp_path) == []


async def test_a_crash_before_the_manifest_leaves_no_snapshot(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 5))

    def crash(call: str) -> None:
        if call == "list_offsets":
            raise timeout()

    admin.before = crash
    with pytest.raises(KafkaGroupsError):
        await take_snapshot(admin, layout_in(tmp_path))
    assert not (tmp_path / "prod" / "manifests").exists()


async def test_progress_ends_at_all(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for number in range(3):
        admin.add(f"g{number}", ("t", 0, 1), state=GroupState.STABLE, members=1)
    seen: dict[str, tuple[int, int]] = {}
    await rows_of(admin, tmp_path, progress=lambda stage, done, total: seen.__setitem__(stage, (done, total)))
    assert seen == {"describe": (3, 3), "offsets": (3, 3), "log starts": (1, 1), "log ends": (1, 1), "write": (3, 3)}


@pytest.mark.safety
async def test_a_clock_that_is_behind_writes_no_history(tmp_path: Path) -> None:
    """What it wrote would be taken for an old observation, and a group that was used meanwhile for one long idle."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("paused", ("t", 0, 5))
    await take_snapshot(admin, layout, now=Ticking(NOW))
    with pytest.raises(SnapshotError, match="check the clocks"):
        await take_snapshot(admin, layout, now=Ticking(NOW - timedelta(days=30)))
    assert len(snapshot_ids(layout)) == 1
    await take_snapshot(admin, layout, now=Ticking(NOW - timedelta(minutes=4)))  # workers' clocks differ a little
    assert len(snapshot_ids(layout)) == 2


@pytest.mark.safety
@pytest.mark.parametrize("until", ["the end", "right after the offsets were read"])
@pytest.mark.parametrize("by", [timedelta(days=-7), timedelta(days=7), timedelta(minutes=4)], ids=str)
async def test_a_clock_that_is_set_while_groups_are_read_writes_no_history(
    tmp_path: Path, by: timedelta, until: str
) -> None:
    """What was read in between would seem to have been idle for a week more."""
    admin, layout, clock = FakeAdmin(), layout_in(tmp_path), Ticking(NOW)
    admin.add("paused", ("t", 0, 5))
    back = [] if until == "the end" else [by]

    def change(call: str) -> None:
        if call == "offsets":
            clock.value += by
        elif call == "list_offsets" and back:
            clock.value -= back.pop()

    admin.before = change
    if abs(by) < timedelta(minutes=5):
        await take_snapshot(admin, layout, now=clock)
        return
    with pytest.raises(SnapshotError, match="clock was set while the snapshot was taken"):
        await take_snapshot(admin, layout, now=clock)
    assert snapshot_ids(layout) == []


@pytest.mark.parametrize("refused", ["ls", "write_bytes", "read_bytes"])
async def test_whatever_the_storage_refuses_is_a_storage_error_with_the_path(tmp_path: Path, refused: str) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 1))
    await take_snapshot(admin, layout_in(tmp_path), now=Ticking())
    base: Any = RefusingPath(tmp_path, refused)
    with pytest.raises(StorageError, match=f"s3:/{tmp_path}/prod.*BotoError: AccessDenied"):
        await take_snapshot(admin, Layout(base, "prod"), now=Ticking())


async def test_a_snapshot_that_the_storage_does_not_hand_out_is_not_one_that_is_missing(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("g", ("t", 0, 1))
    summary = await take_snapshot(admin, layout_in(tmp_path), now=Ticking())
    base: Any = RefusingPath(tmp_path, "read_bytes")
    with pytest.raises(StorageError, match="BotoError"):
        SnapshotReader(Layout(base, "prod"), summary.snapshot_id)


async def test_a_storage_that_cannot_be_written_is_known_before_the_cluster_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    with pytest.raises(StorageError, match=r"prod cannot be written: .*file is not a folder"):
        await take_snapshot(admin, layout_in(tmp_path / "file"), now=Ticking())
    assert admin.calls == []
