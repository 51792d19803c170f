"""The file that programs read, ``summary.json`` (flat), and what the package has to reach. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.scenarios import OURS
from tests.bench.stats import ratio

Number = float | int


@dataclass(frozen=True, slots=True)
class Target:
    """An entry of the summary and the most it may be."""

    name: str
    at_most: float
    says: str


TARGETS = (
    Target("list_offsets.4x.10000.ratio_franz_go", 0.65, "offsets of 10,000 groups, against franz-go"),
    Target("list_offsets.4x.10000.ratio_java_warm", 0.8, "offsets of 10,000 groups, against Java (warm)"),
    Target("list_offsets.4x.10000.ratio_kafka_python", 0.25, "offsets of 10,000 groups, against kafka-python"),
    Target("list_offsets.4x.10000.ratio_confluent", 0.125, "offsets of 10,000 groups, against confluent-kafka"),
    Target("list_offsets.4x.10000.requests", 56, "requests for 10,000 groups, client creation included"),
    Target("list_offsets.4x.50000.ratio_franz_go", 0.5, "offsets of 50,000 groups, against franz-go"),
    Target("list_offsets.4x.50000.peak_mb", 250, "peak memory at 50,000 groups, MB"),
    Target("list_offsets.4x.growth_10000_to_50000", 5.5, "growth of time from 10,000 to 50,000 groups"),
    Target("list_offsets.28_20ms.2000.ratio_best_peer", 0.6, "Kafka 2.8 20 ms away, 2,000 groups, best peer"),
    Target("delete.4x.10000.ratio_franz_go", 0.6, "delete 10,000 groups, against franz-go"),
    Target("delete.4x.10000.ratio_confluent", 0.1, "delete 10,000 groups, against confluent-kafka"),
)


def flatten(scenarios: Iterable[Mapping[str, Any]]) -> dict[str, Number]:
    """Make ``<operation>.<broker>.<groups>.<measure>`` of all scenarios' files.

    Measures without a peer's name are ours: ``seconds`` (warm median), ``cold_seconds``, ``peak_mb``, ``requests`` (of
    a first call, client creation included), ``requests_warm``; with one they are the peer's. ``ratio_<peer>`` is ours
    divided by theirs.
    """
    flat: dict[str, Number] = {}
    for scenario in scenarios:
        name = str(scenario["scenario"])
        for peer, result in scenario["peers"].items():
            suffix = "" if peer == OURS else f"_{peer}"
            flat |= {f"{name}.{measure}{suffix}": value for measure, value in _measures(result).items()}
        flat |= {f"{name}.ratio_{peer}": value for peer, value in scenario["ratios"].items()}
    flat |= _growths(flat)
    return dict(sorted(flat.items()))


def _measures(result: Mapping[str, Any]) -> dict[str, Number]:
    if result["status"] != "measured":
        return {}
    found: dict[str, Number | None] = {
        "seconds": result.get("warm", {}).get("median"),
        "cold_seconds": result.get("cold", {}).get("median"),
        "read_seconds": result.get("read", {}).get("median"),
        "client_cpu_seconds": result.get("client_cpu", {}).get("median"),
        "peak_mb": result.get("peak_mb"),
    }
    for kind, suffix in (("cold", ""), ("warm", "_warm")):
        found[f"requests{suffix}"] = result.get("requests", {}).get(kind)
    return {measure: value for measure, value in found.items() if value is not None}


def _growths(flat: Mapping[str, Number]) -> dict[str, Number]:
    """Divide our time at 50,000 groups by that at 10,000; five times the groups, so 5 is linear."""
    made: dict[str, Number] = {}
    for name, seconds in flat.items():
        kind, _, rest = name.rpartition(".10000.")
        if kind and rest == "seconds":
            growth = ratio(flat.get(f"{kind}.50000.seconds"), seconds)
            if growth is not None:
                made[f"{kind}.growth_10000_to_50000"] = growth
    return made


def judge(flat: Mapping[str, Number]) -> list[tuple[Target, Number | None, bool | None]]:
    """Compare the summary with the targets: (target, measured, reached); ``None`` where it was not measured."""
    judged = []
    for target in TARGETS:
        measured = flat.get(target.name)
        judged.append((target, measured, None if measured is None else measured <= target.at_most))
    return judged
