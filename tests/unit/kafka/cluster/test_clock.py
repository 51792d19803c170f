from __future__ import annotations

import time

import pytest

from airflow_kafka_groups.kafka.cluster.clock import LargerProgress, now, system_clock


class Hands:
    """Two clocks of a machine, as a test sets them."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 100.0, 1_000_000.0
        self.clock = LargerProgress(lambda: self.monotonic, lambda: self.wall)

    def moved(self, monotonic: float, wall: float) -> float:
        before = self.clock()
        self.monotonic += monotonic
        self.wall += wall
        return self.clock() - before


@pytest.mark.parametrize(
    ("monotonic", "wall", "moved"),
    [
        pytest.param(5, 5, 5, id="awake"),
        pytest.param(1, 3_600, 3_600, id="suspended for an hour"),
        pytest.param(5, -3_600, 5, id="the wall clock is put back"),
        pytest.param(0, -1, 0, id="nothing but the wall clock put back"),
    ],
)
def test_the_larger_progress_counts(monotonic: float, wall: float, moved: float) -> None:
    assert Hands().moved(monotonic, wall) == moved


def test_progress_adds_up_however_the_two_clocks_alternate() -> None:
    hands = Hands()
    begun = hands.clock()
    assert [hands.moved(1, 60), hands.moved(30, -60), hands.moved(0, 10)] == [60, 30, 10]
    assert hands.clock() - begun == 100


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_linux_counts_the_time_in_suspend_by_itself() -> None:
    assert now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1)


def test_a_system_without_such_a_clock_gets_the_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert isinstance(system_clock(), LargerProgress)


def test_a_sandbox_that_refuses_the_clock_gets_the_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_id: int) -> float:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", refuse)
    assert isinstance(system_clock(), LargerProgress)
