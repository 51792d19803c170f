"""What a scenario comes to: samples of each peer, and the JSON made of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench.scenarios import BROKER_KINDS, BROKERS_IN_CLUSTER, OURS, PARTITIONS, Scenario
from tests.bench.stats import Spread, ratio, spread


@dataclass(slots=True)
class PeerResult:
    """The samples of one peer in one scenario, or the reason why there are none.

    ``cold`` are first calls in a fresh process, client creation included; ``warm`` are later ones; ``read`` is the time
    to read every value of a result; ``cpu`` is the client's processor time in warm calls; all in seconds. ``peak_mb``
    is the most memory any of its processes has had.
    """

    name: str
    version: str = ""
    skipped: str | None = None
    failed: str | None = None
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: float | None = None
    requests: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def warm_median(self) -> float | None:
        return _median(self.warm)

    @property
    def cold_median(self) -> float | None:
        return _median(self.cold)

    def as_json(self) -> dict[str, Any]:
        if self.skipped is not None:
            return {"status": "skipped", "reason": self.skipped, "version": self.version}
        made: dict[str, Any] = {"status": "failed" if self.failed else "measured", "version": self.version}
        if self.failed:
            made["reason"] = self.failed
        samples = {"cold": self.cold, "warm": self.warm, "read": self.read, "client_cpu": self.cpu}
        made |= {name: found.as_json() for name, values in samples.items() if (found := spread(values))}
        if self.peak_mb is not None:
            made["peak_mb"] = self.peak_mb
        if self.notes:
            made["notes"] = self.notes
        if any(self.requests.values()):
            made["requests"] = self.requests
        return made


def ratios(peers: Mapping[str, PeerResult]) -> dict[str, float]:
    """Divide our medians by each peer's; ``best_peer`` is the fastest of the others.

    A bare name is cold by cold, as a task meets it: each task is a new process, with a new client. ``…_warm`` is warm
    by warm, for clients that are kept. A peer that failed has no ratio: the time of a wrong answer means nothing.
    """
    ours = peers.get(OURS)
    if ours is None or ours.failed:
        return {}
    others = [peer for peer in peers.values() if peer.name != OURS and not peer.failed and not peer.skipped]
    made: dict[str, float | None] = {}
    for peer in others:
        made[peer.name] = ratio(ours.cold_median, peer.cold_median)
        made[f"{peer.name}_warm"] = ratio(ours.warm_median, peer.warm_median)
        if peer.read and max(peer.read) > 0:
            made[f"{peer.name}_with_reading"] = ratio(_total(ours), _total(peer))
    cold = min((peer.cold_median for peer in others if peer.cold_median is not None), default=None)
    warm = min((peer.warm_median for peer in others if peer.warm_median is not None), default=None)
    made["best_peer"] = ratio(ours.cold_median, cold)
    made["best_peer_warm"] = ratio(ours.warm_median, warm)
    return {name: round(value, 4) for name, value in made.items() if value is not None}


def scenario_json(
    scenario: Scenario, peers: Mapping[str, PeerResult], environment: Mapping[str, Any]
) -> dict[str, Any]:
    kind = BROKER_KINDS[scenario.broker]
    return {
        "scenario": scenario.name,
        "operation": scenario.operation,
        "broker": scenario.broker,
        "kafka": kind.version,
        "brokers": BROKERS_IN_CLUSTER,
        "round_trip_ms": kind.round_trip_ms,
        "groups": scenario.groups,
        "partitions": PARTITIONS,
        "environment": dict(environment),
        "peers": {name: peer.as_json() for name, peer in peers.items()},
        "ratios": ratios(peers),
    }


def _median(values: list[float]) -> float | None:
    found: Spread | None = spread(values)
    return found.median if found else None


def _total(peer: PeerResult) -> float | None:
    warm, read = peer.warm_median, _median(peer.read)
    return None if warm is None else warm + (read or 0.0)
