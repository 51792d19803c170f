"""The lag of groups by Spark, compared with loops over single rows and groups: flags, times, sums and lookups."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.frames import LAG_SCHEMA
from airflow_kafka_groups.spark.jobs.lag_report import _SUMS, SUMMED_BY, largest, of_partitions, sums, with_lag
from tests.histories.shorthand import SnapshotRow, hour, seen
from tests.spark.rows import snapshot_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GROUPS = ["a.1", "a.2", "ab", "mon-1", "mon-1x", "é", "", "\U0001f600"]
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
    found = {"flag": flag, "lag": lag, "lost": lost}
    found |= {"lag_seconds": seconds, "lag_seconds_method": method}
    return {name: found[name] if name in found else row[name] for name in LAG_SCHEMA.names}


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


def of(spark: SparkSession, rows: Sequence[SnapshotRow]) -> DataFrame:
    """Return rows of a snapshot with their lag in messages."""
    return with_lag(snapshot_rows(spark, rows))


def reported(spark: SparkSession, rows: Sequence[SnapshotRow], found: Sequence[Timestamp] = ()) -> DataFrame:
    return of_partitions(of(spark, rows), found)


def _naive(row: Row) -> Row:
    """Spark returns times without a zone."""
    return {"observed_at": row["observed_at"].replace(tzinfo=None)}


def dicts(rows: DataFrame) -> list[Row]:
    return [row.asDict() for row in rows.collect()]


@pytest.mark.parametrize("seed", range(5))
def test_a_report_is_that_of_loops_over_its_rows(spark: SparkSession, seed: int) -> None:
    random = Random(f"lag {seed}")
    rows = random_rows(random)
    most: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        if row["topic"] is not None and (lag := slow_lag(row)[1] or 0) > 0:
            most[first_unread(row)] = max(most[first_unread(row)], lag)
    count = random.choice([1, 3, 100])
    expected = sorted(most, key=lambda place: (-most[place], place))[:count]
    seen_rows = of(spark, rows)
    assert largest(seen_rows, count) == [(Partition(topic, number), offset) for topic, number, offset in expected]

    asked = [*expected, ("t", 0, 9), ("elsewhere", 0, 0)]  # also one without lag, and one of no group
    times = [None, 0, SECONDS_OF_2026 * 1_000, SECONDS_OF_2026 * 1_000 + 3_599_999, 2**63 - 1]
    known = {place: (random.choice(times), random.choice(["CreateTime", "LogAppendTime"])) for place in asked}
    found: list[Timestamp] = [(*place, *time) for place, time in known.items() if random.random() < 0.8]
    known = {place: known[place] for place in known if place in {each[:3] for each in found}}
    lags = [slow_partition(row, known) for row in rows if row["topic"] is not None]
    made = reported(spark, rows, found).cache()
    try:
        key = repr
        assert sorted(dicts(made), key=key) == sorted((row | _naive(row) for row in lags), key=key)
        for keys in SUMMED_BY.values():
            assert dicts(sums(made, *keys)) == slow_sums(lags, *keys)
        names = [each.rpartition(" ")[2] for each in _SUMS]
        nothing = dict.fromkeys(names, 0) | dict.fromkeys(["max_partition_lag", "lost", "max_lag_seconds"])
        assert dicts(sums(made)) == (slow_sums(lags) or [nothing])
    finally:
        made.unpersist()
