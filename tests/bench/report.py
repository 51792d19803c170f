"""Tables for people, in Markdown: printed at the end of a run, and put into docs/benchmarks.md. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.bench.scenarios import BROKER_KINDS, OURS, PEERS, TITLES
from tests.bench.skipping import KNOWN_FAILURES
from tests.bench.summary import Number, judge

BEGIN, END = "<!-- results: written by python -m tests.bench --write-docs -->", "<!-- end of results -->"
OPERATIONS = {
    "list_offsets": "List offsets",
    "find_coordinators": "Find coordinators",
    "describe": "Describe",
    "delete": "Delete",
}

_FEWEST = 1_000
"""Groups from which a scenario has a row: the files have those of fewer."""
_MANY = 10_000
"""Groups of a broker's scenario beside which one of the fewest has no row."""


def tables(scenarios: Sequence[Mapping[str, Any]], flat: Mapping[str, Number]) -> str:
    """Write everything: what has to be reached, the times, memory, and who was left out."""
    parts = [_machine(scenarios), _targets(flat)]
    for operation, title in OPERATIONS.items():
        chosen = [scenario for scenario in scenarios if scenario["operation"] == operation]
        if chosen:
            parts.append(f"### {title}\n\n{_times(chosen)}")
    if memory := _memory(scenarios):
        parts.append(f"### Memory and processor\n\n{memory}")
    left_out = _left_out(scenarios)
    if left_out:
        parts.append(f"### Left out, or worth a word\n\n{left_out}")
    return "\n\n".join(part for part in parts if part) + "\n"


def put_between_markers(page: str, text: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """Replace what is between the markers; raises ``ValueError`` when they are not there."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the page has no {marks[0]} … {marks[1]}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def _machine(scenarios: Sequence[Mapping[str, Any]]) -> str:
    """Return when and on what machine it ran, and its load when each scenario began."""
    environments = [scenario["environment"] for scenario in scenarios if scenario["environment"]]
    if not environments:
        return ""
    last = environments[-1]
    dates = sorted({environment["date"] for environment in environments})
    loads = [environment["load_before"] for environment in environments]
    return (
        f"Measured on {' to '.join(dict.fromkeys((dates[0], dates[-1])))}: {last['processors']} processors, "
        f"{last['memory_gib']} GiB, {last['system']}, Python {last['python']}. Load before a scenario began (brokers "
        f"and clients of the one before included): {min(loads):g} to {max(loads):g}."
    )


def _targets(flat: Mapping[str, Number]) -> str:
    rows = []
    for target, measured, reached in judge(flat):
        value = "not measured" if measured is None else f"{measured:g}"
        verdict = {None: "", True: "yes", False: "**no**"}[reached]
        kept = flat.get(f"{target.name}_warm")
        rows.append([target.says, f"{target.at_most:g}", value, verdict, "" if kept is None else f"{kept:g}"])
    header = ["ours / theirs, cold, where nothing else is said", "at most", "measured", "reached", "warm"]
    return "### Aims\n\n" + markdown_table(header, rows)


def _times(scenarios: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    chosen = [scenario for scenario in scenarios if scenario["groups"] >= _FEWEST]
    most = {scenario["broker"]: scenario["groups"] for scenario in chosen}  # the last one has the most
    shown = [scenario for scenario in chosen if most[scenario["broker"]] < _MANY or scenario["groups"] > _FEWEST]
    peers = [peer for peer in PEERS if any(_time(scenario, peer) != "n/a" for scenario in shown)]
    for scenario in shown:
        rows.append([_where(scenario), f"{scenario['groups']:,}", *(_time(scenario, peer) for peer in peers)])
    return markdown_table(["Kafka", "groups", *(TITLES[peer] for peer in peers)], rows)


def _where(scenario: Mapping[str, Any]) -> str:
    kind = BROKER_KINDS[scenario["broker"]]
    return kind.version + (f", {kind.round_trip_ms} ms away" if kind.round_trip_ms else "")


def _time(scenario: Mapping[str, Any], peer: str) -> str:
    """Write the seconds of a kept client, and in brackets those of the first call of a new one."""
    result = scenario["peers"].get(peer)
    if result is None or result["status"] == "skipped":
        reason = "" if result is None else str(result["reason"])
        return "n/a" if reason.startswith("n/a") else "left out"
    if result["status"] == "failed":
        return "failed"
    if "warm" not in result:
        return "no time"
    said = _digits(result["warm"]["median"])
    if "cold" in result:
        said += f" ({_digits(result['cold']['median'])})"
    return f"**{said}**" if peer == OURS else said


def seconds(value: float) -> str:
    """Write a time with as many digits as mean something."""
    return f"{_digits(value)} s"


def _digits(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _memory(scenarios: Sequence[Mapping[str, Any]]) -> str:
    """Write a row for the most groups of each operation."""
    largest: dict[str, int] = {}
    for scenario in scenarios:
        largest[scenario["operation"]] = max(largest.get(scenario["operation"], 10_000), scenario["groups"])
    rows = []
    for scenario in scenarios:
        if scenario["groups"] < largest[scenario["operation"]]:
            continue
        cells = []
        for peer in PEERS:
            result = scenario["peers"].get(peer, {})
            measured = result.get("status") == "measured" and "peak_mb" in result
            cpu = result.get("client_cpu", {}).get("median")
            cells.append(f"{result['peak_mb']:.0f} MB, {_digits(cpu)} s" if measured else "")
        rows.append([f"{OPERATIONS[scenario['operation']]}, {_where(scenario)}", f"{scenario['groups']:,}", *cells])
    return markdown_table(["", "groups", *(TITLES[peer] for peer in PEERS)], rows) if rows else ""


def _left_out(scenarios: Iterable[Mapping[str, Any]]) -> str:
    """Write a line for each reason, but for those of calls that a client does not have."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for scenario in scenarios:
        for peer, result in scenario["peers"].items():
            said = [str(note) for note in result.get("notes", [])]
            if result["status"] != "measured":
                said.append(result["reason"] if result["status"] == "skipped" else f"failed: {result['reason']}")
                if (peer, scenario["scenario"]) in KNOWN_FAILURES:
                    said[-1] += f" ({KNOWN_FAILURES[peer, scenario['scenario']]})"
            for one in said:
                if not one.startswith("n/a"):
                    peers, names = reasons.setdefault(one, ({}, {}))
                    peers[TITLES[peer]] = names[f"`{scenario['scenario']}`"] = None
    return "\n".join(
        f"- {', '.join(peers)}, {', '.join(names)}: {said.removeprefix('skipped: ')}."
        for said, (peers, names) in reasons.items()
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
