"""The short form of the campaign: what it promises of a few hundred histories, and that it would notice."""

import pytest

from tests.campaign.campaign import INVARIANTS, quick, run_many, run_story, shrink
from tests.campaign.mutants import without
from tests.campaign.steps import story_of

SEEDS = 150


@pytest.mark.safety
def test_no_history_breaks_an_invariant() -> None:
    summary = run_many(range(SEEDS))
    assert summary.broken == {}, f"python -m tests.campaign --seed {summary.failing[0]}"
    assert summary.runs == SEEDS
    assert summary.deleted > SEEDS, "a campaign that deletes nothing shows nothing"
    assert summary.found["restores_compared"] == summary.deleted + summary.pruned
    assert len(summary.injected) >= 12, f"some kinds of faults never happened: {sorted(summary.injected)}"


@pytest.mark.safety
def test_no_offset_of_a_topic_in_use_is_pruned_and_each_is_restored() -> None:
    summary = run_many(range(20), pruning=True)
    assert summary.broken == {}, f"python -m tests.campaign --pruning --seed {summary.failing_prunings[0]}"
    assert (summary.prunings, summary.runs) == (20, 0)
    assert summary.pruned > 20, "a campaign that prunes nothing shows nothing"
    assert summary.found["restores_compared"] == summary.pruned


@pytest.mark.parametrize("guard", ["subscriptions are not looked at", "the backup is not looked into"])
def test_a_guard_of_prunings_that_is_missing_is_noticed(guard: str) -> None:
    with without(f"pruning: {guard}"):
        assert run_many(range(20), stop_at_first=True, pruning=True).broken


def test_a_guard_that_is_missing_is_noticed_and_the_history_shortened() -> None:
    with without("no intent is written"):
        summary = run_many(range(1, 20), stop_at_first=True)  # seed 0 also prunes
        assert summary.broken.keys() == {"journal_lies"}
        story = story_of(summary.failing[0])
        with quick() as loops:
            shortest = shrink(story, loops, seconds=3.0)
            assert any(problem.startswith("journal_lies") for problem in run_story(shortest, loops).problems)
    assert len(shortest.steps) < len(story.steps)


def test_a_history_is_the_same_each_time() -> None:
    with quick() as loops:
        first, second = (run_story(story_of(7), loops) for _ in range(2))
    assert first.injected == second.injected
    assert [line for line in first.log if "deleted" in line] == [line for line in second.log if "deleted" in line]
    assert set(INVARIANTS).isdisjoint(first.found)
