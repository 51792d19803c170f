"""The slices of a backlog, and what a transform gets to know about the one that it processes. No I/O."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.spark.unread.ranges import Backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of a backlog that is processed, recorded and committed at once.

    :param number: its place in the run, from 1 on.
    :param ends: the offsets to commit after it.
    """

    number: int
    ranges: tuple[Range, ...]
    ends: Mapping[Partition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogContext:
    """What a transform may know of its work: the second argument of ``transform(records, context)``.

    Every try of a slice has the same ``run_id``, ``slice`` and ``ranges``. So a sink that remembers ``(run_id, slice)``
    has every record once: Delta by the options ``txnAppId`` and ``txnVersion``, a table by a MERGE, files by
    overwriting the slice's own partition.

    :param slice: the number of the slice, from 1 on.
    :param slices: how many slices the run has.
    :param attempt: the number of this process among those that worked on the run.
    :param ranges: the offsets of the slice.
    :param repeats: whether an earlier attempt may have processed records of the slice.
    """

    run_id: str
    group_id: str
    kafka_cluster_id: str
    slice: int
    slices: int
    attempt: int
    ranges: tuple[Range, ...]
    repeats: bool


def cut(backlog: Backlog, size: int) -> list[Slice]:
    """Cut a backlog into slices, always into the same ones.

    A slice takes from every partition in proportion to what is left there, so that all are read side by side.

    :param size: the most offsets of a slice; 0 for one slice.
    """
    left, parts = sorted(backlog.ranges), list[list[Range]]()
    while left:
        parts.append(_share(left, size))
        left = without(left, parts[-1])
    parts = parts or [[]]
    # Partitions without a range are committed too, after everything else.
    ends = [*({each.partition: each.end for each in part} for part in parts[:-1]), backlog.ends]
    numbered = enumerate(zip(parts, ends, strict=True), 1)
    return [Slice(number=number, ranges=tuple(part), ends=end) for number, (part, end) in numbered]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the same offsets in as few ranges as possible, sorted."""
    found: list[Range] = []
    for each in sorted(ranges):
        if found and found[-1].partition == each.partition and found[-1].end >= each.start:
            found[-1] = Range(each.partition, found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def overlap(one: Sequence[Range], other: Iterable[Range]) -> list[Range]:
    """Return the offsets that are in both, in as few ranges as possible."""
    return without(one, without(one, other))


def without(one: Iterable[Range], other: Iterable[Range]) -> list[Range]:
    """Return the offsets that are in the first and not in the second, in as few ranges as possible."""
    gone: dict[Partition, list[Range]] = defaultdict(list)
    for each in merged(other):
        gone[each.partition].append(each)
    left = []
    for where, start, end in merged(one):
        for hole in gone[where]:
            left.append(Range(where, start, min(hole.start, end)))
            start = max(start, hole.end)
        left.append(Range(where, start, end))
    return [each for each in left if each.offsets > 0]


def range_rows(ranges: Iterable[Range]) -> list[dict[str, Any]]:
    """Return ranges as JSON rows."""
    return [{**each.partition._asdict(), "start": each.start, "end": each.end} for each in ranges]


def parse_ranges(rows: Iterable[Mapping[str, Any]]) -> tuple[Range, ...]:
    """Return the ranges of JSON rows."""
    return tuple(Range(Partition(row["topic"], row["partition"]), row["start"], row["end"]) for row in rows)


def with_context(function: Callable[..., Any]) -> Callable[[Any, BacklogContext], Any]:
    """Return the user's function as one of records and context, whether it takes the context or not.

    It takes the context if it has a parameter of that name, or a second parameter without a default.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in
        parameters = []
    if any(each.name == "context" and each.kind is not each.VAR_KEYWORD for each in parameters[1:]):
        return lambda records, context: function(records, context=context)
    second = parameters[1] if len(parameters) > 1 else None
    if second is not None and second.default is second.empty and second.kind in (0, 1):  # by position
        return function
    return lambda records, context: function(records)


def _share(left: Sequence[Range], size: int) -> list[Range]:
    """Return the next slice of what is left of each partition; the largest remainders get what rounding leaves."""
    total = sum(each.offsets for each in left)
    budget = min(size or total, total)
    shares = {each: budget * each.offsets // total for each in left}
    remainders = sorted(left, key=lambda each: (-(budget * each.offsets % total), each))
    for each in remainders[: budget - sum(shares.values())]:
        shares[each] += 1
    return [Range(each.partition, each.start, each.start + offsets) for each, offsets in shares.items() if offsets]
