"""Change what decides, one place at a time, and see whether the unit tests of its layer notice: ``make mutants``.

Each mutant is run against the unit tests of its layer, those of its own module first: the file of its name, then
those that name it. A mutant survives when all of them pass. build/mutants/summary.json has the result.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutate import PACKAGE, Mutant, sample_of

LAYERS = ("change", "ledger", "judge", "observe", "kafka", "operators", "hooks", "spark")
FOLDERS = (Path("tests/unit"), Path("tests/exhaustive"))
OUT = Path("build/mutants/summary.json")
_TIMEOUT_S = 900
_PASSED = 0


def pytest(tests: list[Path], environment: dict[str, str], *more: str) -> int:
    """Run tests in one process; return pytest's exit code. A run that does not end has failed, too."""
    options = ["-x", "-q", "--processes", "1", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout", "60", *more]
    command = [sys.executable, "-m", "pytest", *options, *map(str, tests)]
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=_TIMEOUT_S).returncode
    except subprocess.TimeoutExpired:
        return 1


def tests_of(mutant: Mutant) -> list[Path]:
    """Return the test files of a mutant's layer: the one of its module first, then those that name it."""
    module = Path(mutant.path).relative_to(PACKAGE)
    mirrors = [folder / module.parent / f"test_{module.name}" for folder in FOLDERS]
    mirror = next((place for place in mirrors if place.is_file()), mirrors[0])
    name = mutant.path.removesuffix(".py").replace("/", ".")
    of_layer = (file for folder in layer_folders(module.parts[0]) for file in folder.rglob("test_*.py"))
    files = sorted({*of_layer, *([mirror] if mirror.is_file() else [])})
    return sorted(files, key=lambda file: (file != mirror, name not in file.read_text(), file.parent != mirror.parent))


def layer_folders(layer: str) -> list[Path]:
    """Return the folders with the tests of a layer: the quick ones first."""
    return [folder / layer for folder in FOLDERS if (folder / layer).is_dir()]


def survives(mutant: Mutant) -> bool:
    """Run the tests of a mutant; return whether all of them pass."""
    environment = {**os.environ, "MUTANT": f"{mutant.path}:{mutant.index}"}
    return pytest(tests_of(mutant), environment, "-p", "tests.mutants.plugin") == _PASSED


def main() -> int:
    """Run a sample of mutants, and write what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=90, help="how many mutants; default 90")
    parser.add_argument("--seed", type=int, default=14, help="which ones; default 14")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS, help="of which packages; default all")
    parser.add_argument("--at-least", type=float, default=0.95, help="the share that has to be killed; default 0.95")
    parser.add_argument("--only", default="", help="only mutants whose file:line contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once; default: processors")
    options = parser.parse_args()
    sample = [
        mutant
        for mutant in sample_of(options.layers, options.sample, options.seed)
        if options.only in f"{mutant.path}:{mutant.line}"
    ]
    layers = sorted({Path(mutant.path).relative_to(PACKAGE).parts[0] for mutant in sample})
    for layer in layers:
        if pytest(layer_folders(layer), dict(os.environ)) != _PASSED:
            print(f"The tests of {layer} fail without any mutant.", file=sys.stderr)
            return 2
    started = time.monotonic()
    survived = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, (mutant, alive) in enumerate(zip(sample, pool.map(survives, sample), strict=True), 1):
            where = f"{mutant.path}:{mutant.line}"
            print(f"{number:3}/{len(sample)} {'SURVIVED' if alive else 'killed  '} {where}: {mutant.code}", flush=True)
            if alive:
                survived.append({"where": where, "code": mutant.code, "id": mutant.digest})
    killed = len(sample) - len(survived)
    summary = {"sampled": len(sample), "killed": killed, "seed": options.seed, "survived": survived}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(summary, indent=2) + "\n")
    print(f"{killed} of {len(sample)} mutants killed in {time.monotonic() - started:.0f} s; see {OUT}")
    return int(killed < options.at_least * len(sample))


if __name__ == "__main__":
    raise SystemExit(main())
