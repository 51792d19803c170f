"""Run the campaign, one of its histories, or the campaign against guards that are taken out."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.campaign.campaign import Summary, quick, run_many, run_story, shrink
from tests.campaign.mutants import MUTANTS, PRUNING_MUTANTS, without
from tests.campaign.pruning import story_of as pruning_of
from tests.campaign.steps import Story, story_of

FOLDER = Path(__file__).resolve().parents[2] / "build" / "campaign"
RUNS = 10_000
BUDGET = 3_000
"""Histories that a mutant has to survive to count as not found."""
PRUNING_BUDGET = 300
"""The same for guards of prunings: these histories take longer."""
FOUND = 16 / 17
"""The share of the guards whose absence has to be noticed. docs/safety.md names the others, and what holds them."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="how many histories (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default %(default)s)")
    parser.add_argument("--seed", type=int, help="run this history only, and show it")
    parser.add_argument("--pruning", action="store_true", help="only histories that prune topics, of every seed")
    parser.add_argument("--mutants", nargs="*", help="take out these guards, or each of them, one at a time")
    parser.add_argument("--budget", type=int, default=BUDGET, help="histories for a mutant (default %(default)s)")
    asked = parser.parse_args(arguments)
    if asked.seed is not None:
        return _one((pruning_of if asked.pruning else story_of)(asked.seed))
    if asked.mutants is not None:
        return _mutants(asked.mutants or [*MUTANTS, *PRUNING_MUTANTS], asked.budget)
    summary = run_many(range(asked.first, asked.first + asked.runs), pruning=asked.pruning)
    _write("pruning.json" if asked.pruning else "summary.json", {**summary.to_json(), **_real()})
    for story in [*map(story_of, summary.failing[:3]), *map(pruning_of, summary.failing_prunings[:3])]:
        _one(story)
    return _told(summary)


def _told(summary: Summary) -> int:
    print(json.dumps(summary.to_json(), indent=1))
    if summary.broken:
        seed = f"{summary.failing[0]}" if summary.failing else f"{summary.failing_prunings[0]} --pruning"
        print(f"Broken: {summary.broken}. Show one with: python -m tests.campaign --seed {seed}")
    if shows_nothing := not summary.deleted + summary.pruned:
        print("Nothing was deleted, so that this shows nothing: look at the log of a seed")
    return int(bool(summary.broken) or shows_nothing)


def _one(story: Story) -> int:
    """Run one history; when it breaks an invariant, show the shortest form of it that still does."""
    with quick() as loops:
        world = run_story(story, loops)
        if world.problems:
            story = shrink(story, loops)
            world = run_story(story, loops)
    _show(story, world.log, world.problems)
    return int(bool(world.problems))


def _show(story: Story, log: list[str], problems: list[str]) -> None:
    print(f"seed {story.seed}, groups {', '.join(story.behaviours)}")
    for step in story.steps:
        print(f"  {step.action} {step.a} {step.b}")
        for fault in step.faults:
            meanwhile = ", ".join(f"{other.action} {other.a} {other.b}" for other in fault.steps)
            print(f"      at {fault.call} {fault.nth}: {fault.kind} {fault.arg} {meanwhile}")
    print("What happened:", *log, *(problems or ["no invariant is broken"]), sep="\n  ")


def _mutants(names: list[str], budget: int) -> int:
    found: list[dict[str, Any]] = []
    for name in names:
        with without(name):
            pruning = name in PRUNING_MUTANTS
            seeds = range(min(budget, PRUNING_BUDGET)) if pruning else range(budget)
            summary = run_many(seeds, stop_at_first=True, pruning=pruning)
        runs, noticed = summary.prunings if pruning else summary.runs, bool(summary.broken)
        found.append({"guard": name, "found": noticed, "runs": runs, "by": summary.broken})
        print(f"{name:45} {'found' if noticed else 'NOT FOUND'} after {runs:5} {summary.broken}", flush=True)
    missed = [row["guard"] for row in found if not row["found"]]
    counts = {"guards": len(found), "found": len(found) - len(missed), "budget": budget}
    _write("guards.json", {**counts, "mutants": found})
    return int(len(found) - len(missed) < len(found) * FOUND)


def _real() -> dict[str, Any]:
    """Return the figures of the real runs, which another command adds."""
    path = FOLDER / "summary.json"
    whole = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {"real": whole["real"]} if "real" in whole else {}


def _write(name: str, data: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
