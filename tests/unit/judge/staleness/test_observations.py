"""The reduction of rows to observations: the same in one part or in many, and equal digests only for equal commits."""

from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_kafka_groups.judge.staleness.observations import combined
from tests.histories import shorthand
from tests.histories.shorthand import Committed, SnapshotRow, hour, parquet, seen, snapshot_id

NAME = snapshot_id(0)
BIGGEST = 2**63 - 1


def reduce(rows: list[SnapshotRow], of_a_part: int | None = None) -> pa.Table:
    return shorthand.reduce(parquet(rows, row_group_size=of_a_part), NAME)


def random_rows(random: Random) -> list[SnapshotRow]:
    """Make up groups of a snapshot, whose rows may be anywhere, doubled, without ends, with errors, or contradict."""
    rows = []
    for number in range(random.randint(1, 12)):
        offsets: dict[tuple[str, int], Committed] = {
            (random.choice("tu"), partition): (random.choice([0, 5, BIGGEST - 1]), random.choice([None, 3]), "m")
            for partition in range(random.randint(0, 4))
        }
        ends = {at: (random.choice([None, 0, 7]), random.choice([None, 9, BIGGEST])) for at in offsets}
        for row in seen(0, group=random.choice([f"g{number}", "é", "", "\U0001f600"]), offsets=offsets, ends=ends):
            row["members"] = random.choice([0, 0, None, 2])
            row["coordinator"] = random.choice([1, 2, None])
            row["error"] = random.choice([None, None, None, "E", "F"])
            row["state"] = random.choice(["Empty"] * 9 + ["Stable"])
            row["observed_at"] = hour(random.choice([0, 0.5]))
            rows += [row] * random.choice([1, 1, 2])
    random.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_rows_come_to_the_same_in_parts_of_any_size_in_any_order_and_from_many_files(seed: int) -> None:
    random = Random(f"parts {seed}")
    rows = random_rows(random)
    whole = reduce(rows)
    assert whole["group_id"].to_pylist() == sorted({row["group_id"] for row in rows}), "one each, by their UTF-8"
    shuffled, size = random.sample(rows, len(rows)), random.randint(1, 5)
    at = random.randrange(len(rows) + 1)
    for other in (reduce(shuffled, size), combined([reduce(shuffled[:at]), reduce(shuffled[at:], size)])):
        assert columns(other) == columns(whole)


def columns(table: pa.Table) -> dict[str, list[Any]]:
    """Return the columns; of several errors in a group, the first in each part decides which one is kept."""
    found: dict[str, list[Any]] = table.to_pydict()
    found["error"] = [error is not None for error in found["error"]]
    return found


def test_what_is_committed_has_its_own_digest_and_places_and_order_have_no_say() -> None:
    """Neighbours in every column, alone and in pairs, in which something was exchanged."""
    one: list[dict[tuple[str, int], Committed]] = [
        {(topic, partition): (offset, epoch, metadata)}
        for topic, partition, offset, epoch, metadata in product(
            ("a", "b", "ab", ""), (0, 1, 2), (0, 1, 2, 2**31, BIGGEST), (None, 0, 1), (None, "", "a", "b")
        )
    ]
    two: list[dict[tuple[str, int], Committed]] = [
        {("a", 0): (first, None, left), ("a", 1): (second, None, right), ("b", 0): (third, None, "")}
        for first, second, third in product((1, 2, 3), repeat=3)
        for left, right in product(("", "x"), repeat=2)
    ]
    every = [*one, *two]
    rows = [row for number, offsets in enumerate(every) for row in seen(0, group=f"{number:05}", offsets=offsets)]
    table = reduce(rows)
    digests = list(zip(*(table[name].to_pylist() for name in ("partitions", "digest_xor", "digest_sum")), strict=True))
    assert len(set(digests)) == len(every) == table.num_rows
    names = ("digest_xor", "digest_sum")
    for each in names:  # either of them alone, too: a collision of both is far from likely
        assert len(set(zip(table["partitions"].to_pylist(), table[each].to_pylist(), strict=True))) == len(every)
    assert columns(reduce(rows[::-1])) == columns(table)


def test_a_sum_beyond_64_bits_is_the_greatest_number() -> None:
    offsets: dict[tuple[str, int], Committed] = {("t", 0): 0, ("t", 1): 0}
    ends = dict.fromkeys(offsets, (BIGGEST, BIGGEST))
    (row,) = reduce(seen(0, offsets=offsets, ends=ends)).to_pylist()
    assert (row["lag"], row["log_start"], row["lost"]) == (0, BIGGEST, BIGGEST)
    (row,) = reduce(seen(0, offsets={("t", 0): 0}, ends=ends)).to_pylist()
    assert (row["lag"], row["log_start"], row["lost"], row["nearest"]) == (0, BIGGEST, BIGGEST, -BIGGEST)
    (row,) = reduce(seen(0, offsets=offsets, ends=dict.fromkeys(offsets, (0, BIGGEST)))).to_pylist()
    assert (row["lag"], row["lost"]) == (BIGGEST, 0)


def test_what_is_not_known_of_one_partition_is_left_out() -> None:
    offsets: dict[tuple[str, int], Committed] = dict.fromkeys([("t", 0), ("t", 1), ("t", 2)], 0)
    ends: dict[tuple[str, int], tuple[int | None, int | None]] = {
        ("t", 0): (None, None),
        ("t", 1): (None, 9),
        ("t", 2): (5, 7),
    }
    (row,) = reduce(seen(0, offsets=offsets, ends=ends)).to_pylist()
    assert (row["lag"], row["lost"], row["log_start"], row["lag_unknown"]) == (2, 5, 5, 2)


def test_the_lag_of_a_commit_beyond_the_end_is_not_known() -> None:
    (row,) = reduce(seen(0, offsets={("t", 0): BIGGEST}, ends={("t", 0): (-BIGGEST, -BIGGEST)})).to_pylist()
    assert (row["lag"], row["lost"], row["lag_unknown"]) == (None, None, 1)
