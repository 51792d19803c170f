"""The groups of the demo, before any broker is asked."""

from __future__ import annotations

from tests.demo import workload


def test_there_are_about_three_hundred_groups_and_none_is_of_two_kinds() -> None:
    kinds = [
        list(workload.LIVE),
        workload.moving_names(),
        workload.stale_names(),
        workload.sleeping_names(),
        workload.protected_names(),
        [workload.SHARE_GROUP],
    ]
    names = [name for kind in kinds for name in kind]
    assert len(names) == len(set(names)) == 300
    assert len(workload.stale_names()) > 200


def test_names_are_the_same_in_every_run() -> None:
    assert workload.stale_names() == workload.stale_names()


def test_exactly_the_protected_groups_carry_the_protected_prefixes() -> None:
    prefixes = ("connect-", "payments-critical-")
    others = [*workload.LIVE, *workload.moving_names(), *workload.stale_names(), workload.SHARE_GROUP]
    assert all(name.startswith(prefixes) for name in workload.protected_names())
    assert not any(name.startswith(prefixes) for name in others)


def test_both_protocols_have_live_and_dead_groups() -> None:
    assert {protocol for _, protocol in workload.LIVE.values()} == {"classic", "consumer"}
    assert {protocol for _, protocol in workload.LEFT.values()} == {"classic", "consumer"}
