"""At most one holds the lease, whoever is suspended or replaced: many histories made of seeds."""

from __future__ import annotations

from tests.exhaustive.kafka.membership.lease_histories import History, JoiningHistory


def test_no_two_hold_the_lease_at_once() -> None:
    histories = [History(seed) for seed in range(110)]
    broken = {seed: held for seed, history in enumerate(histories) if (held := history.holders(100))}
    assert broken == {}
    assert sum(history.grants for history in histories) > 200, "it changes hands in most of them"


def test_no_two_hold_the_lease_where_candidates_are_suspended_while_they_join() -> None:
    """Two held it in these, one history of 2,800: two answers after a silence, or an old one to JoinGroup, gave it."""
    found = (159, 588, 2_324, 3_480, 7_492, 15_581, 15_612, 17_937, 18_024, 18_563, 23_188, 23_548, 23_570, 31_018)
    assert {seed: held for seed in found if (held := JoiningHistory(seed).holders(100))} == {}
