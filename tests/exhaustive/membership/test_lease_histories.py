"""At most one holds the lease, whoever is suspended or replaced: many histories made of seeds."""

from __future__ import annotations

from tests.exhaustive.membership.lease_histories import History


def test_no_two_hold_the_lease_at_once() -> None:
    histories = [History(seed) for seed in range(110)]
    broken = {seed: held for seed, history in enumerate(histories) if (held := history.holders(100))}
    assert broken == {}
    assert sum(history.grants for history in histories) > 200, "it changes hands in most of them"
