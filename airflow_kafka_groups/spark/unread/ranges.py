"""The unread ranges of a group, computed from its committed offsets and the log ends, and their slices. No I/O."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition, Range

FAIL, SKIP_TO_START, FROM_START, FROM_END, SKIP = "fail", "skip-to-start", "from-start", "from-end", "skip"
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPolicy:
    """What to do when the offsets do not determine the range.

    :param on_no_commit: nothing is committed in a partition: ``fail``, ``from-start`` or ``from-end`` of the log.
    :param on_data_loss: retention removed unread records: ``fail`` or ``skip-to-start``.
    :param on_beyond_end: the commit is beyond the end, or the topic is another: ``fail``, ``from-start`` or ``skip``.
    :param on_missing_topic: a topic or partition with a commit no longer exists: ``fail`` or ``skip``.
    """

    on_no_commit: str = FAIL
    on_data_loss: str = FAIL
    on_beyond_end: str = FAIL
    on_missing_topic: str = FAIL

    def __post_init__(self) -> None:
        for name, choices in POLICY_CHOICES.items():
            if getattr(self, name) not in choices:
                option = f"--{name.replace('_', '-')}"
                raise ArgumentError(option, getattr(self, name), f"give one of {', '.join(choices)}")


POLICY_CHOICES = {
    "on_no_commit": (FAIL, FROM_START, FROM_END),
    "on_data_loss": (FAIL, SKIP_TO_START),
    "on_beyond_end": (FAIL, FROM_START, SKIP),
    "on_missing_topic": (FAIL, SKIP),
}
"""The choices of every policy; the first one is the default."""

POLICY_DOUBTS = {
    "on_no_commit": "partitions without a commit",
    "on_data_loss": "unread records that retention removed",
    "on_beyond_end": "commits beyond the end of the log",
    "on_missing_topic": "topics that do not exist",
}
"""What every policy decides on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The ranges to read, without empty ones, and the offsets to commit after processing.

    :param ends: the offset up to which each partition will have been processed, also where nothing is to be read.
    :param lost: the number of offsets that retention removed unread, by partition.
    :param decided: the decisions made by the policy, for messages.
    :param hidden: the number of offsets behind the beginning of an open transaction, which are left to a later run.
    """

    ranges: tuple[Range, ...]
    ends: Mapping[Partition, int]
    lost: Mapping[Partition, int] = field(default_factory=dict)
    decided: tuple[str, ...] = ()
    hidden: int = 0

    def counts(self) -> dict[str, Any]:
        """Return the numbers for a summary."""
        return {
            "partitions": len(self.ends),
            "partitions_with_backlog": len(self.ranges),
            "offsets": sum(each.offsets for each in self.ranges),
            "offsets_behind_open_transaction": self.hidden,
            "offsets_lost": sum(self.lost.values()),
            "lost": {str(where): count for where, count in self.lost.items()},
            "decided": list(self.decided),
        }


def plan_backlog(
    committed: Mapping[Partition, Commit],
    logs: Mapping[Partition, LogEnds],
    policy: BacklogPolicy,
    *,
    until: Mapping[Partition, int] | None = None,
    stable: Mapping[Partition, int] | None = None,
    missing: Collection[Partition] = (),
    recreated: Mapping[Partition, str] | None = None,
) -> Backlog:
    """Return the range to read of each partition.

    :param until: the maximum offset that is asked for, by partition. Default: the log end.
    :param stable: the beginning of the first open transaction, where nothing behind it is to be read.
    :param missing: partitions of ``committed`` that no longer exist.
    :param recreated: why partitions are of another topic of the same name by now, with the commit as ``{}``.

    Raises ``JobError`` naming the partitions and the option that decides, before anything is read.
    """
    ranges: list[Range] = []
    ends: dict[Partition, int] = {}
    lost: dict[Partition, int] = {}
    decided: list[str] = []
    objections: dict[str, list[str]] = {}
    others, hidden = recreated or {}, 0
    for where in sorted(committed.keys() | logs.keys()):
        option, what = _doubt(where, committed.get(where), logs.get(where), where in missing, others.get(where))
        decision = getattr(policy, option) if option else None
        if decision == FAIL:
            objections.setdefault(option, []).append(what)
            continue
        if decision is not None:
            decided.append(f"{what}: {decision}")
        if decision == SKIP:
            continue
        log = logs[where]
        most = min(log.end, (until or {}).get(where, log.end))
        end = min(most, (stable or {}).get(where, most))
        start = committed[where].offset if decision is None else end if decision == FROM_END else log.start
        if decision == SKIP_TO_START:
            lost[where] = log.start - committed[where].offset
        # Retention may have removed records meanwhile: an end below the start means nothing to read, and the commit
        # never moves back.
        ends[where] = max(end, start)
        hidden += max(most - ends[where], 0)
        if end > start:
            ranges.append(Range(where, start, end))
    if objections:
        raise JobError("; ".join(_objection(option, found) for option, found in objections.items()))
    return Backlog(ranges=tuple(ranges), ends=ends, lost=lost, decided=tuple(decided), hidden=hidden)


def _doubt(
    where: Partition, commit: Commit | None, log: LogEnds | None, is_missing: bool, recreated: str | None
) -> tuple[str, str]:
    """Return the policy's option that decides on a partition, and why; two empty strings if the offsets decide."""
    if is_missing:
        return "on_missing_topic", f"{where} does not exist any more"
    if log is None:
        raise JobError(f"the ends of {where} are not known, though its topic exists: run the job again")
    if commit is None:
        return "on_no_commit", f"{where} has no commit"
    if recreated is not None:
        return "on_beyond_end", f"{where} {recreated.format(commit.offset)}"
    if commit.offset < log.start:
        return "on_data_loss", f"{where} is committed at {commit.offset}, and its log starts at {log.start}"
    if commit.offset > log.end:
        what = f"{where} is committed at {commit.offset}, beyond its end {log.end}"
        return "on_beyond_end", what
    return "", ""


def _objection(option: str, found: list[str]) -> str:
    more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    choices = " or ".join(POLICY_CHOICES[option][1:])
    return f"{'; '.join(found[:_SHOWN])}{more}. Decide by --{option.replace('_', '-')} {choices}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of a backlog that is processed, recorded and committed at once: the first has the number 1."""

    number: int
    ranges: tuple[Range, ...]
    ends: Mapping[Partition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogContext:
    """What a transform may know of its work: the second argument of ``transform(records, context)``.

    Every try of a slice has the same ``run_id``, ``slice`` and ``ranges``. So a sink that remembers ``(run_id, slice)``
    has every record once: Delta by the options ``txnAppId`` and ``txnVersion``, a table by a MERGE.

    :param slice: the number of the slice, from 1 on, of so many ``slices``.
    :param attempt: the number of this process among those that worked on the run.
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
    """Return the user's function as one of records and context, which it gets if it has a parameter of that name."""
    if "context" in inspect.signature(function).parameters:
        return lambda records, context: function(records, context=context)
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
