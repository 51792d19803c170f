"""Every version of every record that ``__consumer_offsets`` may hold, and bytes that are none."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_kafka_groups.observe.offsets_topic.commit_records import decode_commits
from airflow_kafka_groups.observe.offsets_topic.group_records import CorruptRecordError, FutureRecordError, decode_group
from airflow_kafka_groups.observe.offsets_topic.scan import scan_batches
from tests.histories.offset_records import commit_key, commit_value, group_key, group_value, text

AT = 1_700_000_000_123
INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
Record = tuple[bytes | None, bytes | None]
LogRecord = tuple[int, int, bytes | None, bytes | None]


def decoded(records: Sequence[Record]) -> tuple[list[dict[str, Any]], list[bool], list[bool]]:
    keys, values = (pa.array(column, pa.binary()) for column in zip(*records, strict=True))
    found = decode_commits(keys, values)
    rows = pa.table(found.columns).to_pylist()
    return rows, found.good.tolist(), found.future.tolist()


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit_is_decoded(version: int, kind: int) -> None:
    metadata = ["", "m", "x" * 125, "x" * 126, "x" * 127, "ü" * 2000, "x" * 16_383, "x" * 32_000]
    offsets = [0, 1, 2**31, 2**62, 5, 6, 7, 8]
    records: list[Record] = [
        (
            commit_key(f"group-ä{number}", "t" * (number + 1), number, kind=kind),
            commit_value(version, offset, metadata=note, at=AT, epoch=number - 1, topic_id=bool(number % 2)),
        )
        for number, (offset, note) in enumerate(zip(offsets, metadata, strict=True))
    ]
    rows, good, future = decoded(records)
    assert (all(good), any(future)) == (True, False)
    assert rows == [
        {
            "group_id": f"group-ä{number}",
            "topic": "t" * (number + 1),
            "partition": number,
            "committed_offset": offset,
            "leader_epoch": number - 1 if version >= 3 and number else None,
            "metadata": note,
            "committed_at": INSTANT,
            "expires_at": INSTANT.replace(second=25) if version == 1 else None,
            "value_version": version,
        }
        for number, (offset, note) in enumerate(zip(offsets, metadata, strict=True))
    ]


def test_a_commit_that_is_cut_too_long_or_of_another_version_is_told_apart_from_its_neighbours() -> None:
    key, value = commit_key("g", "t", 3), commit_value(3, 9, metadata="note")
    bad: list[Record] = [
        (key[:-1], value),
        (key + b"x", value),
        (b"\x00\x01", value),
        (struct.pack(">h", 1) + struct.pack(">h", -1) + b"xxxxxxxxxx", value),
        (key, value[:-1]),
        (key, value + b"x"),
        (key, b""),
        (key, b"\x00"),
        (key, struct.pack(">h", -1) + value[2:]),
        (key, commit_value(4, 9)[:-1]),
        (key, struct.pack(">hqi", 4, 9, 0) + b"\x00" + bytes(20)),
        (key, struct.pack(">hqi", 4, 9, 0) + b"\xff\xff\xff\xff" + bytes(20)),
        (commit_key(b"\xff\xfe", "t", 1), value),
        (key, commit_value(3, 9).replace(text(""), text(b"\xc3"))),
    ]
    later: Record = (key, struct.pack(">h", 5) + value[2:])
    fine: Record = (key, value)
    rows, good, future = decoded([fine, *(record for each in bad for record in (each, fine)), later, fine])
    assert good == [True, *([False, True] * len(bad)), False, True]
    assert future == [False] * (2 * len(bad) + 1) + [True, False]
    assert {(row["group_id"], row["committed_offset"], row["metadata"]) for row in rows} == {("g", 9, "note")}


def test_a_slice_of_a_batch_is_decoded_as_the_whole() -> None:
    records: list[Record] = [(commit_key(f"g{n}", "t", n), commit_value(n % 5, n)) for n in range(20)]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*records, strict=True))
    part = decode_commits(keys.slice(7, 5), values.slice(7, 5))
    assert part.columns["group_id"].to_pylist() == [f"g{n}" for n in range(7, 12)]
    empty = decode_commits(keys.slice(0, 0), values.slice(0, 0))
    assert len(empty.columns["group_id"]) == 0


@pytest.mark.parametrize("members", [0, 3])
@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_classic_group_is_decoded(version: int, members: int) -> None:
    assert decode_group(group_key("g"), group_value(version, members=members, at=AT)) == {
        "group_id": "g",
        "group_type": "classic",
        "protocol_type": "consumer",
        "protocol": "range",
        "generation": 7,
        "leader": "leader-1",
        "state_changed_at": AT * 1000 if version >= 2 else None,
        "members": members,
    }


def test_groups_of_newer_protocols_have_their_epoch() -> None:
    for kind, name in ((3, "consumer"), (11, "share"), (17, "streams")):
        value = struct.pack(">hi", 0, 42) + b"\x00"
        assert decode_group(group_key("g", kind=kind), value) == {"group_id": "g", "group_type": name, "generation": 42}
    with pytest.raises(FutureRecordError):
        decode_group(group_key("g", kind=3), struct.pack(">hi", 1, 42))


def test_a_group_that_is_cut_anywhere_is_corrupt_and_one_of_a_later_version_is_told() -> None:
    for version in range(5):
        whole = group_value(version, members=2)
        for size in range(2, len(whole)):
            with pytest.raises(CorruptRecordError):
                decode_group(group_key("g"), whole[:size])
        with pytest.raises(CorruptRecordError):
            decode_group(group_key("g"), whole + b"x")
    with pytest.raises(FutureRecordError):
        decode_group(group_key("g"), group_value(5))
    with pytest.raises(CorruptRecordError):
        decode_group(group_key("g")[:-1], group_value(3))


def rows_of(records: Sequence[LogRecord], *, size: int = 3) -> list[dict[str, Any]]:
    """Scan records that were written a second after one another, by their offsets."""
    batches = [
        pa.RecordBatch.from_pydict(
            {
                "key": pa.array([key for _, _, key, _ in part], pa.binary()),
                "value": pa.array([value for *_, value in part], pa.binary()),
                "partition": pa.array([partition for partition, *_ in part], pa.int32()),
                "offset": pa.array([offset for _, offset, *_ in part], pa.int64()),
                "timestamp": pa.array([written(offset) for _, offset, *_ in part], pa.timestamp("us", tz="UTC")),
            }
        )
        for part in (records[start : start + size] for start in range(0, len(records), size))
    ]
    return [row for batch in scan_batches(batches) for row in batch.to_pylist()]


def written(offset: int) -> datetime:
    return INSTANT + timedelta(seconds=offset)


def scanned(records: Sequence[LogRecord], *, size: int = 3) -> tuple[list[dict[str, Any]], dict[str, int]]:
    rows = rows_of(records, size=size)
    counts = {row["name"]: row["number"] for row in rows if row["kind"] == "count"}
    decoded_rows = [row for row in rows if row["kind"] not in ("count", "record")]
    return decoded_rows, {name: count for name, count in counts.items() if count}


def test_of_each_key_the_newest_counts_and_a_tombstone_removes_it() -> None:
    moved, gone, back = (commit_key(name, "t", 0) for name in ("moved", "gone", "back"))
    rows, counts = scanned(
        [
            (0, 10, moved, commit_value(3, 1)),
            (0, 11, gone, commit_value(3, 5)),
            (0, 12, back, commit_value(3, 6)),
            (0, 13, back, None),
            (0, 15, moved, commit_value(4, 2)),
            (0, 20, gone, None),
            (0, 21, back, commit_value(4, 7)),
            (0, 22, group_key("moved"), group_value(3, members=1)),
            (0, 23, group_key("moved"), group_value(3)),
            (0, 24, group_key("gone"), None),
        ]
    )
    assert {(row["kind"], row["group_id"], row["committed_offset"], row["members"]) for row in rows} == {
        ("commit", "moved", 2, None),
        ("commit", "back", 7, None),
        ("removed", "gone", 5, None),
        ("group", "moved", None, 0),
    }
    assert counts == {"records": 10, "outdated": 5, "tombstones": 2, "commits": 2, "groups": 1}
    at = {(row["kind"], row["group_id"]): row["recorded_at"] for row in rows}
    assert at["removed", "gone"] == written(11)
    assert at["commit", "moved"] == written(15)
    assert at["group", "moved"] == written(23)


def group_records(*records: tuple[bytes | None, bytes | None]) -> dict[str, datetime]:
    """Return when each group's newest group record was written; the records are a second apart."""
    rows = rows_of([(0, offset, *record) for offset, record in enumerate(records)])
    return {row["group_id"]: row["recorded_at"] for row in rows if row["kind"] == "record"}


CLASSIC_JOINED, CLASSIC_LEFT = (group_value(3, members=count) for count in (1, 0))
MEMBER = text("member-1")


@pytest.mark.safety
@pytest.mark.promise(1)
def test_each_group_record_says_when_a_client_was_there() -> None:
    """A member that joined and left, and whose records were compacted since, has left the last one of its group."""
    assert group_records(
        (group_key("classic"), CLASSIC_JOINED),
        (group_key("classic"), CLASSIC_LEFT),
        (group_key("new", kind=3), b"\x00\x00" + bytes(5)),
        (group_key("new", kind=5) + MEMBER, b"\x00\x00"),
        (group_key("new", kind=8) + MEMBER, b"\x00\x00"),
        (commit_key("new", "t", 0), commit_value(4, 1)),
        (commit_key("simple", "t", 0), commit_value(4, 1)),
    ) == {"classic": written(1), "new": written(4)}


@pytest.mark.safety
@pytest.mark.parametrize("kind", [5, 7, 8, 10, 13, 14, 19, 21, 22])
def test_the_tombstone_of_a_member_says_that_it_left(kind: int) -> None:
    record = group_key("g", kind=kind) + MEMBER
    assert group_records((record, b"\x00\x00"), (record, None)) == {"g": written(1)}
    assert group_records((record, None)) == {"g": written(0)}


@pytest.mark.parametrize("kind", [2, 3, 4, 6, 16])
def test_the_tombstone_of_a_group_was_written_by_a_broker_and_what_it_removed_was_not(kind: int) -> None:
    """A group that was deleted, or expired, and one of its name that somebody made since."""
    key = group_key("g", kind=kind)
    value = CLASSIC_LEFT if kind == 2 else b"\x00\x00" + bytes(5)
    assert group_records((key, None)) == {}
    assert group_records((key, value), (key, None)) == {"g": written(0)}


def test_a_record_of_a_type_that_kafka_does_not_have_yet_is_a_record_of_its_group() -> None:
    assert group_records((group_key("g", kind=99), b"x"), (b"\x00\x63\x00", b"x")) == {"g": written(0)}


@pytest.mark.safety
def test_a_member_s_record_that_names_no_group_is_corrupt() -> None:
    """A judgement that needs all records must not take it for nothing."""
    _, counts = scanned([(0, 0, b"\x00\x05\x00\x09g", b"x"), (0, 1, group_key("g", kind=5) + MEMBER, b"x")])
    assert counts["corrupt"] == 1


def test_what_is_not_known_is_counted_by_name_and_never_a_crash() -> None:
    good = (0, 1, commit_key("g", "t", 0), commit_value(4, 1))
    rows, counts = scanned(
        [
            good,
            (0, 2, None, b"x"),
            (0, 3, b"", b"x"),
            (0, 4, b"\x00", b"x"),
            (0, 5, group_key("g", kind=5), b"\x00\x00"),
            (0, 6, group_key("g", kind=99), b"\x00\x00"),
            (0, 7, group_key("g"), b"\x00\x09"),
            (0, 8, group_key("h"), b"\x00"),
            (0, 9, commit_key("g", "t", 1), struct.pack(">h", 9)),
            (0, 10, commit_key("g", "t", 2), b""),
        ]
    )
    assert [row["group_id"] for row in rows] == ["g"]
    assert counts == {
        "records": 10,
        "commits": 1,
        "corrupt": 5,
        "future": 2,
        "other: key type 5": 1,
        "other: key type 99": 1,
    }


@pytest.mark.parametrize("at", [-1, 253_402_300_800_000, 2**60])
def test_a_time_that_no_column_can_hold_is_null(at: int) -> None:
    rows, counts = scanned([(0, 1, group_key("g"), group_value(3, at=at))])
    assert [(row["group_id"], row["state_changed_at"]) for row in rows] == [("g", None)]
    assert counts == {"records": 1, "groups": 1}


def test_random_logs_come_to_what_a_plain_dictionary_says() -> None:
    random = Random("offsets log")
    records: list[tuple[int, int, bytes | None, bytes | None]] = []
    expected: dict[tuple[str, int], int] = {}
    for offset in range(2000):
        group, partition = f"g{random.randint(0, 30)}", random.randint(0, 3)
        dead = random.random() < 0.2
        value = None if dead else commit_value(random.randint(0, 4), offset)
        records.append((random.randint(0, 0), offset, commit_key(group, "t", partition), value))
        expected.pop((group, partition), None)
        if not dead:
            expected[(group, partition)] = offset
    rows, counts = scanned(records, size=97)
    there = [row for row in rows if row["kind"] == "commit"]
    assert {(row["group_id"], row["partition"]): row["committed_offset"] for row in there} == expected
    assert counts["commits"] == len(expected)
    assert counts["tombstones"] + counts["commits"] + counts["outdated"] == len(records)
