"""What the demo's cleanup did, counted from its own records and held against the brokers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Return which groups the workload made, by what they are."""

    live: Set[str]
    moving: Set[str]
    stale: Set[str]
    protected: Set[str]
    share: Set[str]


def summarise(plan: Mapping[str, Any], audit: Mapping[str, Any], truth: Truth, left: Set[str]) -> dict[str, int]:
    """Count what happened.

    :param plan: the plan that was carried out, as stored.
    :param audit: the record of its run, as stored.
    :param truth: what the workload made.
    :param left: the groups that the brokers list now.
    """
    counts = plan["counts"]
    deleted = {item["group_id"] for item in audit["outcomes"] if item["outcome"] == "deleted"}
    return {
        "found": counts["found"],
        "live": counts["live"],
        "moving": counts["moving"],
        "stale": counts["stale"],
        "protected": counts["protected"] + counts["excluded"],
        "untouchable": counts["untouchable"],
        "planned": counts["planned"],
        "deleted": len(deleted),
        "verified": len(deleted - left),
        "live_deleted": len(truth.live - left),
        "moving_deleted": len(truth.moving - left),
        "protected_deleted": len(truth.protected - left),
        "share_deleted": len(truth.share - left),
        "stale_left": len(truth.stale & left),
    }


def wrongs(summary: Mapping[str, int], truth: Truth) -> list[str]:
    """Return the deviations from the expected outcome, in sentences; nothing if there are none."""
    found = [
        f"{summary[f'{kind}_deleted']} {kind} group(s) are gone"
        for kind in ("live", "moving", "protected", "share")
        if summary[f"{kind}_deleted"]
    ]
    if summary["stale_left"]:
        found.append(f"{summary['stale_left']} of {len(truth.stale)} stale groups are still there")
    if not summary["planned"] == summary["deleted"] == summary["verified"] == len(truth.stale):
        found.append(
            f"{len(truth.stale)} groups are stale, {summary['planned']} were planned, {summary['deleted']} deleted and "
            f"{summary['verified']} verified; all four should be the same"
        )
    return found


MEANINGS = {
    "found": "listed by the brokers, each once",
    "live": "have members: kept",
    "moving": "no members, but their offsets move (Flink, Spark): kept",
    "untouchable": "share and streams groups: kept",
    "protected": "stale, but protected or excluded by name: kept",
    "planned": "stale: Empty and unmoved for as long as asked",
    "deleted": "backed up, read once more, deleted",
    "verified": "looked for afterwards on every broker, and gone",
    "live_deleted": "must be 0",
    "moving_deleted": "must be 0",
    "protected_deleted": "must be 0",
    "share_deleted": "must be 0",
}


def table(summary: Mapping[str, int]) -> str:
    """Lay the counts out for people."""
    width = max(len(name) for name in MEANINGS)
    rows = [f"  {name:<{width}}  {summary[name]:>6}   {meaning}" for name, meaning in MEANINGS.items()]
    return "\n".join([f"  {'groups':<{width}}  {'number':>6}", *rows])
