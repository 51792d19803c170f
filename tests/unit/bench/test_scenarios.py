"""Which scenarios there are and how they are chosen, and when a peer is left out of one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.bench.scenarios import BROKER_KINDS, FULL, QUICK, Scenario, choose
from tests.bench.skipping import has_enough, why_not
from tests.bench.summary import TARGETS


def scenario(operation: str = "list_offsets", broker: str = "4x", groups: int = 10_000) -> Scenario:
    return Scenario(operation, broker, groups)


def test_names_are_unique_and_every_size_comes_after_the_smaller_ones_it_is_judged_by() -> None:
    assert len({one.name for one in FULL}) == len(FULL)
    for place, one in enumerate(FULL):
        same = [
            other.groups for other in FULL[:place] if (other.operation, other.broker) == (one.operation, one.broker)
        ]
        assert all(groups < one.groups for groups in same)


def test_a_broker_kind_is_started_once() -> None:
    kinds = [one.broker for one in FULL]
    changes = [after for before, after in pairwise(kinds) if before != after]
    assert len(changes) == len(BROKER_KINDS) - 1


def test_all_that_has_to_be_reached_is_measured() -> None:
    names = {one.name for one in FULL} | {"list_offsets.4x"}
    assert {target.name.rpartition(".")[0] for target in TARGETS} <= names


def test_quick_is_the_part_with_10_000_groups() -> None:
    assert [one.name for one in QUICK] == ["list_offsets.4x.10000", "delete.4x.10000"]


def test_scenarios_are_chosen_by_name_or_pattern_in_the_order_of_the_list() -> None:
    chosen = choose(["delete.4x.1000", "list_offsets.28_20ms.*"])
    names = [one.name for one in chosen]
    assert names[0] == "delete.4x.1000"
    assert "list_offsets.28_20ms.2000" in names
    assert all(name == "delete.4x.1000" or name.startswith("list_offsets.28_20ms.") for name in names)


def test_a_name_that_fits_nothing_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"delete\.5x\.1000.*There are: .*delete\.4x\.1000"):
        choose(["delete.5x.1000"])


def test_a_call_a_peer_does_not_have_is_not_applicable() -> None:
    assert str(why_not("java", scenario("find_coordinators"), {})).startswith("n/a: ")
    assert why_not("franz_go", scenario("find_coordinators"), {}) is None


def test_java_is_asked_for_50_groups_at_most_of_old_brokers() -> None:
    assert why_not("java", scenario(broker="28", groups=50), {}) is None
    for broker in ("28", "28_20ms"):
        assert str(why_not("java", scenario(broker=broker, groups=100), {})).startswith("skipped: too slow beyond 50")
    assert why_not("java", scenario(groups=50_000), {}) is None


def test_a_peer_that_would_take_too_long_is_left_out_and_the_basis_is_named() -> None:
    assert why_not("confluent", scenario(groups=10_000), {1_000: 9.0}) is None
    reason = str(why_not("confluent", scenario(groups=10_000), {100: 1.0, 1_000: 9.1}))
    assert "at 1,000 groups 9.1 s a call, so 91 s here" in reason


def test_larger_sizes_are_no_basis() -> None:
    assert why_not("confluent", scenario(groups=1_000), {10_000: 2_000.0}) is None


def test_a_slow_peer_makes_room_once_it_has_a_warm_sample() -> None:
    assert not has_enough([], [500.0])
    assert not has_enough([1.0], [2.0])
    assert has_enough([10.0], [21.0])


def test_only_those_named_take_part() -> None:
    one = Scenario("delete", "4x", 50_000, peers=("ours", "franz_go"))
    assert why_not("franz_go", one, {}) is None
    assert str(why_not("java", one, {})).startswith("skipped: not part of this comparison")
