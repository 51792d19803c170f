"""The observations that decide: in a long history, most observations repeat others, and no window needs them.

The windows of ``transforms.py`` sort all observations that they get. What they find of a group depends on few of them,
which ``decisive`` selects by aggregates, without sorting. It compares each observation with the group's newest one:

- Before the last observation with other offsets, and the last one that is not quiet, everything is history: whatever
  moved or began there, something moved or began later. Only the first observation, and the first with known log ends,
  still count.
- After the last observation that differs from the newest in any way, nothing moved or began, provided that the
  snapshots follow one another in time. Where that is not certain for every group, or an incomplete snapshot may show a
  sign of life, the observations of both snapshots are kept.

A group that a snapshot in between lacks, and one that cannot be read now, keeps all its observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from pyspark.sql import DataFrame

from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.spark.frames import query
from airflow_kafka_groups.spark.ledger.snapshots import Extent
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import COMMITTED, KIND, positions

_NEWEST = ("readable", "quiet", "ends_known", *KIND, *COMMITTED)
_SAME_OFFSETS = " AND ".join(f"{name} = newest.{name}" for name in COMMITTED)
_SAME_KIND = " AND ".join(f"{name} = newest.{name}" for name in KIND)

_DECISIVE = f"""
WITH last AS (
    SELECT group_id, struct({", ".join(_NEWEST)}) AS newest FROM {{newest}}
), positions AS (
    SELECT /*+ BROADCAST(last) */ group_id,
        count(*) AS observations,
        count_if(sequence = %(newest)d AND readable) AS read_now,
        min(sequence) AS first,
        min(IF(ends_known, sequence, NULL)) AS first_known,
        max(IF(readable AND NOT coalesce({_SAME_OFFSETS}, false), sequence, NULL)) AS other_offsets,
        max(IF(IF(newest.quiet, NOT quiet OR NOT coalesce({_SAME_KIND}, false), NOT readable), sequence, NULL))
            AS restless,
        max(IF(ends_known != newest.ends_known, sequence, NULL)) AS other_ends
    FROM {{observed}} JOIN last USING (group_id)
    GROUP BY group_id
), kept AS (
    SELECT group_id, first, first_known,
        read_now != 1 OR observations != %(newest)d - first + 1 AS all_count,
        coalesce(least(other_offsets, restless), first) AS from_here,
        coalesce(greatest(other_offsets, restless, other_ends) + 1, first) AS to_here
    FROM positions
)
SELECT /*+ BROADCAST(kept) */ observed.*, all_count
FROM {{observed}} AS observed JOIN kept USING (group_id)
WHERE all_count
    OR sequence BETWEEN from_here AND to_here
    OR sequence IN (first, first_known, %(newest)d)
    OR sequence IN (%(uncertain)s)
"""


def uncertain_positions(
    snapshot_ids: Sequence[str],
    incomplete_ids: Sequence[str],
    extents: Mapping[str, Extent],
    policy: StalenessPolicy,
) -> set[int]:
    """Return the positions of snapshots that may not follow one another as the policy asks, or with signs of life.

    :param snapshot_ids: the complete snapshots, oldest first.
    :param incomplete_ids: the incomplete ones.
    :param extents: the times of the observations of each.
    """
    oldest = {name: each.oldest and parse_time(each.oldest) for name, each in extents.items()}
    newest = {name: each.newest and parse_time(each.newest) for name, each in extents.items()}
    longest = timedelta(microseconds=policy.max_gap_micros) or timedelta.max
    followed_by = positions(snapshot_ids, incomplete_ids)
    doubtful = set(followed_by.values())
    for place, (before, after) in enumerate(pairwise(snapshot_ids), 1):
        first, last, begins, ends = oldest[before], newest[before], oldest[after], newest[after]
        # Signs are compared by time: an incomplete snapshot may overlap a complete one that began later.
        if (
            not (first and last and begins and ends)
            or begins < last
            or ends - first > longest
            or any(follower <= place and (newest[name] or first) >= first for name, follower in followed_by.items())
        ):
            doubtful.add(place)
    return doubtful | {place - 1 for place in doubtful}


def decisive(observed: DataFrame, newest: DataFrame, position: int, uncertain: set[int]) -> DataFrame:
    """Keep the observations on which the state of a group depends, and add whether these are all of the group's.

    :param observed: the observations of complete snapshots, with their positions.
    :param newest: those of the judged snapshot, which are broadcast. Groups that it lacks are left out.
    :param position: its position.
    :param uncertain: the positions of which all observations are kept.
    """
    kept = ", ".join(map(str, sorted(uncertain))) or "-1"
    return query(_DECISIVE % {"newest": position, "uncertain": kept}, observed=observed, newest=newest)
