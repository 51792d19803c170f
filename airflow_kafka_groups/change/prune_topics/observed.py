"""What one snapshot shows of some groups, topic by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupId
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, fingerprints
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.arrow_schema import utc_times
from airflow_kafka_groups.storage.arrow_values import column, literal

_FACTS = ("group_type", "protocol_type")


class ObservedTopic(NamedTuple):
    """The committed offsets of one topic of a group.

    :param fingerprint: of these offsets.
    :param partitions: the partitions, in order.
    :param exists: whether the log of one of them could be read.
    """

    fingerprint: str
    partitions: tuple[int, ...]
    exists: bool


class ObservedGroup(NamedTuple):
    """A group in a snapshot.

    :param error: why it could not be read completely; ``None`` if it could.
    :param topics: its committed offsets, by topic.
    """

    group_id: GroupId
    group_type: str
    protocol_type: str
    observed_at: datetime
    error: str | None
    topics: Mapping[str, ObservedTopic]


def observe(snapshot: SnapshotReader, group_ids: Collection[GroupId]) -> dict[GroupId, ObservedGroup]:
    """Return what a snapshot shows of these groups. Groups that it lacks are left out.

    Raises ``SnapshotError`` for rows that this package does not write.
    """
    found: dict[GroupId, ObservedGroup] = {}
    for block in snapshot.blocks(set(group_ids), ["observed_at", *_FACTS, "error", "log_end", *OFFSET_COLUMNS]):
        topics = defaultdict(dict, _topics(snapshot, block.rows))
        facts = [block.first(name).to_pylist() for name in _FACTS]
        errors, times = block.errors(), utc_times(block.first("observed_at"))
        if None in times or found.keys() & set(block.group_ids):
            raise SnapshotError(f"snapshot {snapshot.manifest.snapshot_id} lacks the time of a group, or has it twice")
        of_groups = [topics[group_id] for group_id in block.group_ids]
        groups = map(ObservedGroup, block.group_ids, *facts, times, errors, of_groups)
        found |= {group.group_id: group for group in groups}
    return found


def _topics(snapshot: SnapshotReader, rows: Any) -> dict[GroupId, dict[str, ObservedTopic]]:
    import pyarrow.compute as pc

    committed = rows.filter(pc.is_valid(rows["committed_offset"]))
    if committed["topic"].null_count or committed["partition"].null_count:
        raise SnapshotError(f"snapshot {snapshot.manifest.snapshot_id} is damaged: an offset lacks its partition")
    keys = [(name, "ascending") for name in ("group_id", "topic", "partition")]
    ordered = committed.take(pc.sort_indices(committed, sort_keys=keys))
    found: dict[GroupId, dict[str, ObservedTopic]] = defaultdict(dict)
    ends = list(_ends(ordered))
    digests, _ = fingerprints(ordered, ends)
    partitions, logs = ordered["partition"].to_pylist(), pc.is_valid(ordered["log_end"]).to_pylist()
    last = column([end - 1 for end in ends], ordered["partition"].type)
    names = zip(ordered["group_id"].take(last).to_pylist(), ordered["topic"].take(last).to_pylist(), strict=True)
    for (group_id, topic), digest, (start, end) in zip(names, digests, pairwise([0, *ends]), strict=True):
        found[group_id][topic] = ObservedTopic(digest, tuple(partitions[start:end]), any(logs[start:end]))
    return found


def _ends(rows: Any) -> Iterator[int]:
    """Yield where the rows of each group and topic end."""
    import pyarrow.compute as pc

    if not len(rows):
        return
    names = pc.binary_join_element_wise(rows["group_id"], rows["topic"], literal("\t"))  # no topic has a tab
    yield from pc.run_end_encode(names).run_ends.to_pylist()
