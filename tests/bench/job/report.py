"""The flat file of the job's benchmark, and its table for docs/benchmarks.md. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.bench.job.steps import Taken
from tests.bench.stats import ratio

BEGIN, END = "<!-- job: written by python -m tests.bench.job --write-docs -->", "<!-- end of job -->"
STEPS = ("snapshot", "find", "list", "judge", "plan", "backup", "approve", "delete", "verify", "report", "restore")
CORE = {
    "snapshot": "core_list",
    "list": "core_list",
    "backup": "core_list",
    "delete": "core_delete",
    "restore": "core_commit",
}
"""Steps that make a call of the core, and the call alone."""
LIMITS = {"plan": 3.0, "backup": 5.0, "delete": 12.0, "report": 1.0, "restore": 10.0}
"""Seconds that a step should take at most for 60,000 groups."""
SMALL, LARGE = 12_000, 60_000


def flatten(groups: int, taken: Mapping[str, Taken]) -> dict[str, Any]:
    """Return what a pass took as ``job.<groups>.<step>_<measure>``.

    :param groups: how many.
    :param taken: of each step.
    """
    flat: dict[str, Any] = {f"job.{groups}.passed": True}
    for name, step in taken.items():
        of_step = f"job.{groups}.{name}"
        flat |= {f"{of_step}_seconds": round(step.seconds, 3), f"{of_step}_peak_mb": round(step.peak_mb)}
        if name != "judge":
            flat[f"{of_step}_cpu_seconds"] = round(step.cpu_seconds, 3)
        if (call := taken.get(CORE.get(name, ""))) is not None:
            flat[f"{of_step}_ratio_core"] = ratio(step.seconds, call.seconds)
    tasks = [step for step in taken.values() if step.before_mb is not None]
    flat[f"job.{groups}.airflow_peak_mb"] = round(max(step.peak_mb for step in tasks))
    flat[f"job.{groups}.airflow_before_mb"] = round(max(step.before_mb or 0 for step in tasks))
    flat[f"job.{groups}.tasks_seconds"] = round(sum(step.seconds for step in tasks), 3)
    flat[f"job.{groups}.tasks_cpu_seconds"] = round(sum(step.cpu_seconds for step in tasks), 3)
    return flat


def growths(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Divide the times of 60,000 groups by those of 12,000; five times the groups, so 5 is linear.

    ``job.growth`` is that of all Airflow tasks together, ``job.growth_<step>`` of one.
    """
    names = {"": "tasks_seconds", "_cpu": "tasks_cpu_seconds"}
    names |= {f"_{step}": f"{step}_seconds" for step in STEPS}
    made = {
        f"job.growth{suffix}": ratio(flat.get(f"job.{LARGE}.{name}"), flat.get(f"job.{SMALL}.{name}"))
        for suffix, name in names.items()
    }
    return {name: value for name, value in made.items() if value is not None}


def table(flat: Mapping[str, Any]) -> str:
    """Write the results as Markdown.

    :param flat: the file.
    """
    sizes = sorted({int(name.split(".")[1]) for name in flat if name.startswith("job.") and name.endswith(".passed")})
    lines = [
        f"| step | {' | '.join(f'{size:,} groups' for size in sizes)} | core's call alone | at most |",
        f"|---|{'---|' * len(sizes)}---|---|",
    ]
    for step in STEPS:
        cells = [_cell(flat, size, step) for size in sizes]
        core = flat.get(f"job.{LARGE if LARGE in sizes else sizes[-1]}.{CORE.get(step)}_seconds")
        limit = LIMITS.get(step)
        lines.append(
            f"| {step} | {' | '.join(cells)} | {'' if core is None else f'{core:.2f} s'} "
            f"| {'' if limit is None else f'{limit:g} s'} |"
        )
    peaks = [f"{flat.get(f'job.{size}.airflow_peak_mb', '?')} MB" for size in sizes]
    lines.append(f"| largest Airflow task | {' | '.join(peaks)} | | 400 MB |")
    growth = flat.get("job.growth")
    if growth is not None:
        lines.append(f"\nFive times the groups take {growth:.2f} times the time of all Airflow tasks (5 is linear).")
    return "\n".join(lines) + "\n"


def _cell(flat: Mapping[str, Any], groups: int, step: str) -> str:
    seconds = flat.get(f"job.{groups}.{step}_seconds")
    return "" if seconds is None else f"{seconds:.2f} s, {flat[f'job.{groups}.{step}_peak_mb']} MB"


def put_between_markers(page: str, text: str) -> str:
    """Replace what is between the job's markers; raises ``ValueError`` when they are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
