"""Run real histories: real brokers, a real S3 server, and workers that are killed."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from tests.campaign.mutants import MUTANTS
from tests.campaign.real.campaign import AT_ONCE, RealSummary, run_real, site
from tests.campaign.real.records import code_digest, read_records, write_record
from tests.campaign.real.story import real_story

SUMMARY = Path(__file__).resolve().parents[3] / "build" / "campaign" / "summary.json"
RECORDS = SUMMARY.with_name("real-runs.jsonl")
RUNS = 200
TRIES = 2
"""How often a seed is tried that could not be run, each time on new clusters."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.real", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="how many runs (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default %(default)s)")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many runs side by side (default %(default)s)")
    parser.add_argument("--resume", action="store_true", help="count the runs that this code has already done")
    parser.add_argument("--without", choices=MUTANTS, help="let the workers lack this guard")
    asked = parser.parse_args(arguments)
    seeds = range(asked.seed, asked.seed + asked.runs)
    before = list(read_records(RECORDS, code_digest(), seeds)) if asked.resume else []
    left = sorted(set(seeds) - {record.seed for record in before})
    keep = (lambda record: None) if asked.without else partial(write_record, RECORDS)
    summary = RealSummary()
    for record in before:
        summary.add(record)
    for _ in range(TRIES):
        if left:
            with site({real_story(seed).version for seed in left}) as place:
                done = run_real(left, place, at_once=asked.at_once, told=_tell, record=keep, without=asked.without)
            summary.merge(done)
            left = sorted(done.not_run)
    if asked.without is None:
        _write(summary.to_json())
    print(json.dumps(summary.to_json(), indent=1))
    for seed in sorted(summary.failing)[:1]:
        print(f"Broken: {summary.broken}. Run it again with: python -m tests.campaign.real --runs 1 --seed {seed}")
    return int(bool(summary.broken or summary.not_run))


def _tell(text: str) -> None:
    print(text, flush=True)


def _write(real: dict[str, object]) -> None:
    """Add the figures to the summary of the simulated histories."""
    SUMMARY.parent.mkdir(parents=True, exist_ok=True)
    whole = json.loads(SUMMARY.read_text(encoding="utf-8")) if SUMMARY.exists() else {}
    SUMMARY.write_text(json.dumps({**whole, "real": real}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
