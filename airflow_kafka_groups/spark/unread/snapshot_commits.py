"""The commits of groups to be deleted, out of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.kafka.models.group_states import GroupState
from airflow_kafka_groups.observe.offset_values import Commit, Partition

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 20


def read_groups(rows: Iterable[pa.Table], group_ids: Collection[str]) -> dict[str, dict[Partition, Commit]]:
    """Return the commits of these groups from a snapshot's rows.

    :param rows: all of the snapshot's, in parts.
    :param group_ids: the groups; each must be in the snapshot, readable and without members.

    Raises ``JobError`` naming the groups for which this is not so.
    """
    import pyarrow as pa  # --help needs none
    import pyarrow.compute as pc

    if "" in group_ids:
        raise JobError("the group with the empty id cannot be archived: its folder would have no name")
    # Of a name that is no text, such as an argument in another encoding, no snapshot has a group.
    wanted = pa.array(sorted(name for name in group_ids if _is_text(name)), pa.string())
    found: dict[str, dict[Partition, Commit]] = {}
    doubts: dict[str, str] = {}
    columns = ["group_id", "state", "topic", "partition", "committed_offset", "error"]
    chosen = (part.filter(pc.is_in(part["group_id"], wanted)).select(columns) for part in rows)
    for row in (row for part in chosen for row in part.to_pylist()):
        commits = found.setdefault(row["group_id"], {})
        if row["error"] is not None:
            doubts[row["group_id"]] = f"could not be read ({row['error']})"
        elif row["state"] != GroupState.EMPTY:
            doubts[row["group_id"]] = f"was {row['state']}, not Empty"
        elif row["topic"] is not None:
            where, commit = Partition(row["topic"], row["partition"]), Commit(row["committed_offset"])
            if None in (row["partition"], row["committed_offset"]):
                doubts[row["group_id"]] = f"has a row of {where.topic} without a partition or an offset"
            elif commits.setdefault(where, commit) != commit:
                offsets = f"{commits[where].offset} and {commit.offset}"
                doubts[row["group_id"]] = f"is there twice, with {where} committed at {offsets}"
    doubts |= {group_id: "is not in the snapshot" for group_id in group_ids if group_id not in found}
    if doubts:
        shown = "; ".join(f"group {group_id!r} {why}" for group_id, why in sorted(doubts.items())[:_SHOWN])
        raise JobError(f"{shown}: nothing was archived. Take a new snapshot, or leave such groups out")
    return found


def _is_text(name: str) -> bool:
    """Return whether a name can be written as UTF-8, as all of Kafka's are."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
