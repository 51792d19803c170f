"""The report in parts, compared with loops over single rows and groups: flags, times, sums, lookups and files."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.lag import (
    SCHEMA,
    SUM_NAMES,
    SUMMED_BY,
    Sums,
    look_through,
    partition_lag,
    with_seconds,
    write_tables,
)
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.storage.file_storage import LocalStorage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from airflow_kafka_groups.storage.paths import TableName
from tests.histories.shorthand import SnapshotRow, hour, looked_up, rows_of, seen

GROUPS = ["a.1", "a.2", "ab", "mon-1", "mon-1x", "é", "", "\U0001f600"]
OWNERS = {"a.1": "team", "a.2": "team", "ab": "rest", "mon-1": "ops"}
SECONDS_OF_2026 = 1_767_225_600

Row = dict[str, Any]


def random_rows(random: Random) -> list[SnapshotRow]:
    """Make up groups of a snapshot: without ends, beyond them, behind the log start, with errors, or contradictory."""
    rows = []
    for name in random.sample(GROUPS, random.randint(1, len(GROUPS))):
        offsets = {(random.choice("tuv"), number): random.choice([0, 3, 7, 9, 20]) for number in range(6)}
        ends = {at: (random.choice([None, 0, 0, 5]), random.choice([None, 9, 9, 12])) for at in offsets}
        for row in seen(1, group=name, offsets=random.choice([{}, offsets, offsets]), ends=ends):
            row["state"] = random.choice(["Empty"] * 9 + ["Stable"])
            row["error"] = random.choice([None] * 9 + ["E"])
            row["observed_at"] = hour(random.choice([1, 1.5, 1 + 1 / 3_000_000_000]))
            if random.random() < 0.1:
                row["committed_offset"] = None
            rows += [row] * random.choice([1, 1, 1, 2])
    random.shuffle(rows)
    return rows


def slow_lag(row: SnapshotRow) -> tuple[str, int | None, int]:
    """Return the flag, the lag and what is lost."""
    offset, start, end = row["committed_offset"], row["log_start"], row["log_end"]
    if row["error"] is not None or offset is None:
        return "unreadable", None, 0
    if start is None or end is None:
        return "unknown", None, 0
    if offset > end:
        return "beyond_end", None, 0
    if offset < start:
        return "data_lost", end - start, start - offset
    return "ok", end - offset, 0


def first_unread(row: SnapshotRow) -> tuple[str, int, int]:
    return row["topic"], row["partition"], max(row["committed_offset"], row["log_start"])


def slow_time(row: SnapshotRow, known: Mapping[tuple[str, int, int], tuple[int | None, str]]) -> tuple[Any, str]:
    """Return the lag in seconds, and how it was found."""
    flag, lag, _ = slow_lag(row)
    if lag is None:
        return None, flag
    if lag == 0:
        return 0.0, "no_lag"
    if first_unread(row) not in known:
        return None, "not_looked_up"
    milliseconds, clock = known[first_unread(row)]
    if milliseconds is None:
        return None, "no_record_found"
    micros = round(row["observed_at"].timestamp() * 1_000_000) - min(milliseconds, 9 * 10**15) * 1_000
    return max(micros / 1_000_000, 0.0), f"first_unread_record:{clock}"


def slow_partition(row: SnapshotRow, known: Mapping[tuple[str, int, int], tuple[int | None, str]]) -> Row:
    flag, lag, lost = slow_lag(row)
    seconds, method = slow_time(row, known)
    found = {"owner": OWNERS.get(row["group_id"], "unowned"), "flag": flag, "lag": lag, "lost": lost}
    found |= {"lag_seconds": seconds, "lag_seconds_method": method}
    return {name: found[name] if name in found else row[name] for name in SCHEMA.names}


def slow_sums(lags: Sequence[Row], *names: str) -> list[Row]:
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in lags:
        parts[tuple(row[name] for name in names)].append(row)
    found = []
    for key, rows in parts.items():
        known = [row["lag"] for row in rows if row["lag"] is not None]
        behind = [row["lag_seconds"] for row in rows if (row["lag"] or 0) > 0]
        times = [0.0] if known == [0] * len(rows) else [each for each in behind if each is not None]
        sums = {
            "groups": len({row["group_id"] for row in rows}),
            "partitions": len(rows),
            "partitions_without_lag": len(rows) - len(known),
            "partitions_without_seconds": behind.count(None),
            "lag": sum(known),
            "max_partition_lag": max(known, default=None),
            "lost": sum(row["lost"] for row in rows),
            "max_lag_seconds": max(times, default=None),
        }
        found.append({**dict(zip(names, key, strict=True)), **sums})
    return sorted(found, key=lambda row: (-row["lag"], *(row[name].encode() for name in names)))


def random_parts(random: Random, rows: Sequence[SnapshotRow]) -> list[pa.Table]:
    cuts = sorted({0, len(rows), *(random.randrange(len(rows) + 1) for _ in range(random.randint(0, 3)))})
    return [rows_of(rows[begin:end]) for begin, end in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(40))
def test_a_report_in_parts_is_that_of_loops_over_its_rows(tmp_path: Path, seed: int) -> None:
    random = Random(f"lag {seed}")
    rows = random_rows(random)
    parts = random_parts(random, rows)
    most: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        if row["topic"] is not None and (lag := slow_lag(row)[1] or 0) > 0:
            most[first_unread(row)] = max(most[first_unread(row)], lag)
    count = random.choice([1, 3, 100])
    largest = sorted(most, key=lambda place: (-most[place], place))[:count]
    behind = look_through(parts, count)
    assert behind.groups == {row["group_id"] for row in rows}
    assert behind.unreadable == {row["group_id"] for row in rows if row["error"] is not None}
    assert behind.behind == [(Partition(topic, number), offset) for topic, number, offset in largest]
    assert look_through(parts, 0) == behind._replace(behind=[])

    asked = [*largest, ("t", 0, 9), ("elsewhere", 0, 0)]  # also one without lag, and one of no group
    times = [None, 0, SECONDS_OF_2026 * 1_000, SECONDS_OF_2026 * 1_000 + 3_599_999, 2**63 - 1]
    known = {place: (random.choice(times), random.choice(["CreateTime", "LogAppendTime"])) for place in asked}
    found: list[Timestamp] = [(*place, *time) for place, time in known.items() if random.random() < 0.8]
    places = {name: f"{tmp_path.as_uri()}/{name}" for name in (TableName.LAG_PARTITIONS, *SUMMED_BY)}
    sums, tables = write_tables(LocalStorage(), places, parts, OWNERS, found)

    known = {place: known[place] for place in known if place in {each[:3] for each in found}}
    lags = [slow_partition(row, known) for row in rows if row["topic"] is not None]
    assert pq.read_table(tmp_path / "lag_partitions").to_pylist() == lags
    assert (sums.flags, sums.methods) == tuple(
        Counter(row[name] for row in lags) for name in ("flag", SCHEMA.names[-1])
    )
    for name, keys in SUMMED_BY.items():
        assert tables[name].to_pylist() == slow_sums(lags, *keys)
        assert pq.read_table(tmp_path / name) == tables[name]
    nothing = dict.fromkeys(SUM_NAMES, 0) | dict.fromkeys(["max_partition_lag", "lost", "max_lag_seconds"])
    assert sums.by().to_pylist() == (slow_sums(lags) or [nothing])


@pytest.mark.parametrize("count", [2**31, 2**63 - 1, 2**63, 10**30])
def test_any_number_of_lookups_may_be_allowed(count: int) -> None:
    part = rows_of(seen(1, offsets={("t", 0): 1}))
    assert look_through([part, part], count).behind == [(Partition("t", 0), 1)]


def test_many_parts_come_to_few_sums() -> None:
    sums = Sums()
    for number in range(50):
        offsets = {("t", number): 1}
        sums.add(with_seconds(partition_lag(rows_of(seen(1, offsets=offsets))), looked_up([])))
        assert len(sums._parts) <= 4
    assert [row["lag"] for row in sums.by("group_id").to_pylist()] == [50 * 99]


@pytest.mark.parametrize(("offset", "start", "end"), [(-(2**63), 5, 9), (-5, -(2**63), 2**63 - 1)])
def test_a_distance_of_more_than_64_bits_is_no_figure(offset: int, start: int, end: int) -> None:
    rows = rows_of(seen(1, group="g", offsets={("t", 0): offset}, ends={("t", 0): (start, end)}))
    said = rf"group 'g', t\[0\] has offsets that cannot be right, .*: committed {offset}, log from {start} to {end}"
    with pytest.raises(JobError, match=said):
        partition_lag(rows)


def test_a_sum_of_more_than_64_bits_is_no_figure() -> None:
    sums, offsets = Sums(), {("t", 0): 0}
    part = with_seconds(partition_lag(rows_of(seen(1, offsets=offsets, log_end=2**62))), looked_up([]))
    sums.add(part)
    with pytest.raises(JobError, match="the lag of all groups has more than 64 bits"):
        sums.add(part)


def test_what_was_lost_is_no_part_of_the_lag() -> None:
    """Each of the two sums fits into 64 bits, up to the last number."""
    places = {("t", 0): 0, ("u", 0): 1}
    ends = {("t", 0): (2**62, 2**63 - 1), ("u", 0): (2**62 - 1, 2**63 - 1)}
    rows = seen(1, offsets=places, ends=ends)
    sums = Sums()
    sums.add(with_seconds(partition_lag(rows_of(rows[:1])), looked_up([])))
    (row,) = sums.by().to_pylist()
    assert (row["lag"], row["lost"]) == (2**62 - 1, 2**62)
    all_of_it = Sums()
    all_of_it.add(with_seconds(partition_lag(rows_of(rows)), looked_up([])))
    (row,) = all_of_it.by().to_pylist()
    assert (row["lag"], row["lost"]) == (2**63 - 1, 2**63 - 2)


@pytest.mark.parametrize(("sizes", "files"), [((2, 2, 1), [4, 1]), ((3, 3), [3, 3]), ((), [0]), ((0, 1), [1])])
def test_a_folder_has_files_of_so_many_rows_and_at_least_one(
    tmp_path: Path, sizes: Sequence[int], files: list[int]
) -> None:
    schema = pa.schema({"n": pa.int64()})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "before.parquet").write_text("")
    folder = ReplacedFolder(LocalStorage(), f"{tmp_path.as_uri()}/out")
    folder.write(schema, (pa.table({"n": pa.array(range(size), pa.int64())}) for size in sizes), rows_of_a_file=3)
    names = folder.verify("rows", "wrote")
    assert [pq.read_metadata(tmp_path / "out" / name).num_rows for name in names] == files
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
