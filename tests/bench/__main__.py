"""``python -m tests.bench``: measure this package beside other clients on real brokers, all in one run.

Writes build/bench/<scenario>.json and summary.json, and prints tables. Scenarios that were not part of
this run keep their files, and their place in the summary. Ends with 1 when a client gave a wrong answer that is not
known of it, 2 for bad arguments or a missing Java.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tests.bench import report, summary
from tests.bench.cluster import running
from tests.bench.results import scenario_json
from tests.bench.runner import Run, run_scenario, warm_up
from tests.bench.scenarios import BROKER_KINDS, FULL, QUICK, Scenario, choose
from tests.bench.skipping import KNOWN_FAILURES
from tests.bench.toolchains import REPOSITORY, prepare
from tests.lab.errors import LabError

BUILD = REPOSITORY / "build" / "bench"
PAGE = REPOSITORY / "docs" / "benchmarks.md"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="10,000 groups on Kafka 4.x: list offsets, delete")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="a scenario, such as delete.4x.1000 or '*.28.*'"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")
    parser.add_argument("--write-docs", action="store_true", help="put the results into docs/benchmarks.md")
    parser.add_argument("--report-only", action="store_true", help="measure nothing; report what was measured before")
    chosen = parser.parse_args(arguments)
    try:
        scenarios = choose(chosen.only) if chosen.only else QUICK if chosen.quick else FULL
    except ValueError as error:
        parser.error(str(error))
    if chosen.list:
        print("\n".join(scenario.name for scenario in scenarios))
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        wrong = [] if chosen.report_only else measure(scenarios)
    except LabError as error:
        print(f"Cannot measure: {error}", file=sys.stderr)
        return 2
    _report(write_docs=chosen.write_docs)
    for sentence in wrong:
        print(f"WRONG: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


def measure(scenarios: Sequence[Scenario]) -> list[str]:
    """Measure and write each scenario's file; return what went wrong, a sentence each."""
    begin = time.monotonic()
    run = Run(peers=prepare(BUILD), build=BUILD, say=lambda text: print(text, flush=True))
    for peer in run.peers.values():
        run.say(f"{peer.name} {peer.version}{f': {peer.missing}' if peer.missing else ''}")
    wrong = []
    for label, grouped in groupby(scenarios, key=lambda scenario: scenario.broker):
        of_kind = list(grouped)
        kind = BROKER_KINDS[label]
        run.say(f"Starting Kafka {kind.version}, {kind.round_trip_ms} ms away …")
        with running(kind, BUILD / "groups") as cluster:
            warm_up(run, cluster, of_kind)
            for scenario in of_kind:
                run.say(f"{time.monotonic() - begin:5.0f} s  {scenario.name}")
                load = os.getloadavg()[0]
                results = run_scenario(run, scenario, cluster)
                made = scenario_json(scenario, results, environment(load))
                (BUILD / f"{scenario.name}.json").write_text(json.dumps(made, indent=1) + "\n")
                for result in results.values():
                    median = result.warm_median
                    run.say(f"    {result.name:12} {'-' if median is None else report.seconds(median)}")
                    if result.failed and (result.name, scenario.name) not in KNOWN_FAILURES:
                        wrong.append(f"{result.name} in {scenario.name}: {result.failed}")
    run.say(f"Done in {time.monotonic() - begin:.0f} s.")
    return wrong


def environment(load_before: float) -> dict[str, Any]:
    """Return the kind of machine, and how busy it was with other things."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processors": os.cpu_count(),
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(load_before, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }


def _report(*, write_docs: bool) -> None:
    scenarios = _measured()
    flat = summary.flatten(scenarios)
    (BUILD / "summary.json").write_text(json.dumps(flat, indent=1) + "\n")
    text = report.tables(scenarios, flat)
    print(f"\n{text}")
    if write_docs:
        PAGE.write_text(report.put_between_markers(PAGE.read_text(), text))


def _measured() -> list[dict[str, Any]]:
    """Read what this run and earlier ones measured, in the order of the full list."""
    order = {scenario.name: place for place, scenario in enumerate(FULL)}
    files = [path for path in BUILD.glob("*.json") if path.stem in order]
    return [json.loads(path.read_text()) for path in sorted(files, key=lambda path: order[path.stem])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
