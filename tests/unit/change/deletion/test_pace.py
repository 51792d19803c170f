"""How many groups go together, and how fast: limits, and pauses while brokers are slower than at first."""

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.pace import LONGEST_PAUSE, OFFSETS_AT_ONCE, Chunks, Pace
from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.ledger.plan_rows import Target


class Paced:
    """A pace on a clock that moves only when it is told to."""

    def __init__(self, **limits: Any) -> None:
        self.clock = 100.0
        self.said: list[str] = []
        self.pace = Pace(DeletionLimits(**limits), lambda: self.clock, self.said.append)

    def delete(self, groups: int, seconds: float) -> float:
        """Delete a chunk, and return how long the next one has to wait."""
        self.clock += seconds
        self.pace.answered(groups, seconds)
        waits = max(self.pace.wait_seconds, 0.0)
        self.clock += waits
        return round(waits, 6)


def test_without_a_limit_and_with_quick_brokers_nothing_waits() -> None:
    paced = Paced()
    for _ in range(20):
        paced.pace.begin(1_000, 10_000)
        assert paced.delete(1_000, 0.4) == 0
    assert paced.said == []


def test_so_many_groups_a_second() -> None:
    paced = Paced(groups_per_second=50)
    paced.pace.begin(250, 250)
    assert paced.pace.wait_seconds == 5.0
    paced.clock += 2.0  # the time that the chunk takes counts
    assert paced.pace.wait_seconds == 3.0
    paced.clock += 100.0
    paced.pace.begin(100, 100)
    assert paced.pace.wait_seconds == 2.0, "what was not used before is not saved up"


def test_so_many_bytes_a_second() -> None:
    paced = Paced(bytes_per_second=1_000, groups_per_second=1_000)
    paced.pace.begin(10, 100)  # a hundred bytes for each offset
    assert paced.pace.wait_seconds == 10.0


def test_brokers_that_get_slower_are_given_pauses_which_grow_and_end() -> None:
    paced = Paced()
    assert [paced.delete(1_000, 0.5) for _ in range(4)] == [0, 0, 0, 0]
    assert [paced.delete(1_000, 5.0) for _ in range(5)] == [5.0, 10.0, 20.0, LONGEST_PAUSE, LONGEST_PAUSE]
    (said,) = paced.said
    assert "pauses after each chunk" in said
    assert [paced.delete(1_000, 0.5) for _ in range(8)][-1] == 0
    assert "without pauses" in paced.said[-1]


def test_a_small_last_chunk_is_no_slow_broker() -> None:
    paced = Paced()
    for _ in range(4):
        paced.delete(1_000, 1.0)
    assert [paced.delete(3, 0.9) for _ in range(5)] == [0] * 5


def test_quick_requests_are_not_worth_a_pause_however_much_they_vary() -> None:
    paced = Paced()
    for _ in range(4):
        paced.delete(1_000, 0.01)
    assert [paced.delete(1_000, 0.3) for _ in range(5)] == [0] * 5
    assert [paced.delete(1_000, 0.5) for _ in range(5)] == [0] * 5
    assert paced.delete(1_000, 0.51) > 0


@pytest.mark.parametrize("name", ["groups_per_second", "bytes_per_second"])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), True, "fast"])
def test_a_pace_that_makes_no_sense_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        DeletionLimits(**{name: bad})


def chunks(partitions: Sequence[int], *, most: int = 1_000, **limits: float) -> Chunks:
    names = [f"g{number}" for number in range(len(partitions))]
    groups = [Target(group_id=name, group_type="classic", protocol_type="", fingerprint="f") for name in names]
    entries = {
        name: Target(group_id=name, group_type="classic", protocol_type="", partitions=count, fingerprint="f")
        for name, count in zip(names, partitions, strict=True)
    }
    return Chunks(groups, entries, DeletionLimits(chunk_size=most, max_read_age_seconds=16.0, **limits))


def sizes(cut: Chunks) -> list[int]:
    return [len(chunk) for chunk in iter(cut.take, [])]


def test_every_group_comes_once_and_in_order() -> None:
    cut = chunks([1] * 7, most=3)
    taken = [group.group_id for chunk in iter(cut.take, []) for group in chunk]
    assert taken == [f"g{number}" for number in range(7)]
    assert list(cut.take()) == []


def test_groups_with_many_offsets_go_in_smaller_chunks() -> None:
    half = OFFSETS_AT_ONCE // 2
    assert sizes(chunks([half, half, half, 1])) == [2, 2]
    assert sizes(chunks([10 * OFFSETS_AT_ONCE, 1, 1])) == [1, 2], "one that is too large goes alone"


def test_slow_chunks_are_followed_by_smaller_ones_and_quick_ones_by_larger_ones() -> None:
    cut = chunks([1] * 100, most=16)
    taken = [len(cut.take())]
    for seconds in (5.0, 5.0, 2.0, 0.5, 0.5, 0.5):
        cut.took(seconds)
        taken.append(len(cut.take()))
    assert taken == [16, 8, 4, 4, 8, 16, 16]


def test_a_chunk_has_one_group_at_least() -> None:
    cut = chunks([1] * 20, most=2)
    for _ in range(10):
        cut.took(100.0)
    assert len(cut.take()) == 1


def test_a_pace_limit_makes_small_chunks_so_that_pauses_stay_short() -> None:
    assert sizes(chunks([1] * 12, groups_per_second=1.0)) == [5, 5, 2]
    assert sizes(chunks([10] * 5, bytes_per_second=400.0)) == [2, 2, 1]
    assert sizes(chunks([1] * 3, groups_per_second=0.01)) == [1, 1, 1]
