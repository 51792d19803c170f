"""The flat file of the job's benchmark, and its tables for docs/benchmarks.md. Pure."""

from collections.abc import Mapping
from typing import Any

from tests.bench.job.steps import Taken
from tests.bench.report import markdown_table, seconds
from tests.bench.stats import ratio

MARKS = ("<!-- job: written by python -m tests.bench.job --write-docs -->", "<!-- end of job -->")
STEPS = (
    "snapshot",
    "find",
    "list",
    "judge",
    "plan",
    "page",
    "backup",
    "approve",
    "delete",
    "verify",
    "report",
    "restore",
)
CORE = {
    "snapshot": "core_list",
    "list": "core_list",
    "backup": "core_list",
    "delete": "core_delete",
    "restore": "core_commit",
}
"""Steps that make a call of the core, and the call alone."""
AIMS = {"plan": 3.0, "page": 0.5, "backup": 5.0, "delete": 12.0, "report": 1.0, "restore": 10.0}
"""Seconds that a step should take at most for 60,000 groups."""
PEAK_AIM, GROWTH_AIM, LAG_AIM = 400, 5.5, 1.0
SMALL, LARGE = 12_000, 60_000


def flatten(groups: int, taken: Mapping[str, Taken]) -> dict[str, Any]:
    """Return what a pass took as ``job.<groups>.<step>_<measure>``."""
    flat: dict[str, Any] = {f"job.{groups}.passed": True}
    for name, step in taken.items():
        of_step = f"job.{groups}.{name}"
        flat |= {f"{of_step}_seconds": round(step.seconds, 3), f"{of_step}_peak_mb": round(step.peak_mb)}
        if step.cpu_seconds is not None:
            flat[f"{of_step}_cpu_seconds"] = round(step.cpu_seconds, 3)
        if (call := taken.get(CORE.get(name, ""))) is not None:
            flat[f"{of_step}_ratio_core"] = ratio(step.seconds, call.seconds)
    tasks = [step for step in taken.values() if step.before_mb is not None]
    flat[f"job.{groups}.airflow_peak_mb"] = round(max(step.peak_mb for step in tasks))
    flat[f"job.{groups}.airflow_before_mb"] = round(max(step.before_mb or 0 for step in tasks))
    flat[f"job.{groups}.tasks_seconds"] = round(sum(step.seconds for step in tasks), 3)
    flat[f"job.{groups}.tasks_cpu_seconds"] = round(sum(step.cpu_seconds or 0 for step in tasks), 3)
    return flat


def growths(flat: Mapping[str, Any]) -> dict[str, float]:
    """Divide the times of 60,000 groups by those of 12,000; five times the groups, so 5 is linear.

    ``job.growth`` is that of all Airflow tasks together, ``job.growth_<step>`` of one.

    :param flat: the file.
    """
    names = {"": "tasks_seconds", "_cpu": "tasks_cpu_seconds"}
    names |= {f"_{step}": f"{step}_seconds" for step in STEPS}
    made = {
        f"job.growth{suffix}": ratio(flat.get(f"job.{LARGE}.{name}"), flat.get(f"job.{SMALL}.{name}"))
        for suffix, name in names.items()
    }
    return {name: value for name, value in made.items() if value is not None}


def tables(flat: Mapping[str, Any]) -> str:
    """Write the results as Markdown."""
    return "\n\n".join(part for part in (_machine(flat), _job(flat), _growth(flat), _lag(flat)) if part) + "\n"


def _machine(flat: Mapping[str, Any]) -> str:
    found = flat.get("machine")
    if not found:
        return ""
    return (
        f"Measured on {found['date']}: {found['processors']} processors, {found['memory_gib']} GiB, {found['system']}, "
        f"Python {found['python']}. Load when the last pass began: {found['load_before']:g}."
    )


def _sizes(flat: Mapping[str, Any]) -> list[int]:
    return sorted({int(name.split(".")[1]) for name in flat if name.startswith("job.") and name.endswith(".passed")})


def _job(flat: Mapping[str, Any]) -> str:
    sizes = _sizes(flat)
    if not sizes:
        return ""
    shown = LARGE if LARGE in sizes else sizes[-1]
    rows = []
    for step in STEPS:
        core = flat.get(f"job.{shown}.{CORE.get(step)}_seconds")
        aim = AIMS.get(step)
        cells = [_cell(flat, size, step) for size in sizes]
        rows.append([step, *cells, "" if core is None else seconds(core), "" if aim is None else f"{aim:g} s"])
    peaks = [f"{flat[f'job.{size}.airflow_peak_mb']} MB" for size in sizes]
    rows.append(["largest Airflow task", *peaks, "", f"{PEAK_AIM} MB"])
    header = ["step", *(f"{size:,} groups" for size in sizes)]
    return markdown_table([*header, f"the core's call alone, {shown:,} groups", f"aim for {LARGE:,} groups"], rows)


def _cell(flat: Mapping[str, Any], groups: int, step: str) -> str:
    taken = flat.get(f"job.{groups}.{step}_seconds")
    if taken is None:
        return "not measured"
    cpu = flat.get(f"job.{groups}.{step}_cpu_seconds")
    used = "" if cpu is None else f" ({seconds(cpu)})"
    return f"{seconds(taken)}{used}, {flat[f'job.{groups}.{step}_peak_mb']} MB"


def _growth(flat: Mapping[str, Any]) -> str:
    growth = flat.get("job.growth")
    if growth is None:
        return ""
    return (
        f"Five times the groups take {growth:.2f} times the time of all Airflow tasks together, and "
        f"{flat['job.growth_cpu']:.2f} times their processor time (5 is linear; the aim is at most {GROWTH_AIM:g})."
    )


def _lag(flat: Mapping[str, Any]) -> str:
    sizes = sorted({int(name.split(".")[1]) for name in flat if name.startswith("lag.") and name.endswith(".seconds")})
    rows = []
    for size in sizes:
        of_size = f"lag.{size}"
        theirs = [seconds(flat[f"{of_size}.cli_seconds"]), f"{flat[f'{of_size}.ratio_cli']:g}"]
        ours = f"{seconds(flat[f'{of_size}.seconds'])}, {flat[f'{of_size}.peak_mb']} MB"
        rows.append([f"{size:,}", ours, *theirs, f"{LAG_AIM:g} s" if size == 10_000 else ""])
    header = [
        "groups",
        "`ListGroupLagOperator`",
        "`kafka-consumer-groups --describe --all-groups`",
        "ours / theirs",
        "aim",
    ]
    return markdown_table(header, rows) if rows else ""
