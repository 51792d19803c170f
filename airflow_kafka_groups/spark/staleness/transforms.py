"""The judgement of consumer groups by their history: observations in, one verdict per group out. No I/O.

Theory of operation. ``observations.py`` has reduced each snapshot to one row for each group.

1. ``_numbered`` adds each snapshot's position in the history, and ``decisive.py`` may leave out of a long one what
   decides nothing: ``all_count`` says whether a group's observations are all there.
2. ``life`` keeps each group's *life*: its observations in the complete snapshots in a row up to the newest. A
   snapshot without the group ends a life: whatever comes later is another group with the same name.
3. ``compared`` has each observation beside the one before it. A *quiet* observation is read without error,
   ``Empty`` and without members. A run of quiet observations is ended by every doubt: an observation that is not quiet,
   a gap longer than allowed, a clock that went backwards, another group type or protocol type, and a sign of life in an
   incomplete snapshot (``signs_of_life.py``). A *stretch* is an idle time, or a single observation outside of one; it
   is named by its first position. What is left of a life is one row: when it began, when the present run began, when
   something last moved, and the first observations with known log ends.
4. ``replay`` adds these to the newest snapshot's observations: the *state* of each group.
5. ``judge`` measures idle times, ``forecasts.py`` adds forecasts, and ``verdicts.py`` decides, without the forecasts,
   in the order of docs/formats.md.

Every doubt means keep. Any difference in the committed offsets of two observations is movement: offset, leader epoch or
metadata, forwards or backwards. A commit of the same offset with other metadata is a sign of life.

Only narrow rows are sorted, once, by group and position: what the windows need of an observation, and no more. Strings
and structs stay out of the aggregates, since Spark hash-aggregates only values of a fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from airflow_kafka_groups.spark.frames import VERDICT_SCHEMA, query
from airflow_kafka_groups.spark.ledger.snapshots import Extent
from airflow_kafka_groups.spark.staleness.decisive import decisive, uncertain_positions
from airflow_kafka_groups.spark.staleness.forecasts import ENDS_KNOWN, forecasts
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import COMMITTED, KIND, positions, sign_at, with_glimpses
from airflow_kafka_groups.spark.staleness.verdicts import WITHOUT_MEMBERS, verdict_and_reason

_EARLIER_STRETCH = 2**31  # more than any position: of two stretches the later one counts, within one the earlier row
_MARKS = f"error IS NULL AS readable, error IS NULL AND {WITHOUT_MEMBERS} AS quiet, {ENDS_KNOWN} AS ends_known"
_NARROW = ", ".join(("group_id", "sequence", "observed_at", *KIND, *COMMITTED, "lag", "log_start"))

_NUMBERED = """
SELECT /*+ BROADCAST(places) */ *
FROM {observed} JOIN (
    SELECT split_part(place, ' ', 1) AS run_id, CAST(split_part(place, ' ', 2) AS int) AS sequence
    FROM (SELECT explode(split('%s', ',')) AS place)
) AS places USING (run_id)
"""

_NO_SIGNS = "SELECT *, true AS no_sign FROM life"
# Signs are compared by time too: an incomplete snapshot may overlap a complete one that began later.
_SIGNS = f"""
SELECT *, sign_at IS NULL AND coalesce(
    max(sign_at) OVER (PARTITION BY group_id ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    < lag(observed_at) OVER (PARTITION BY group_id ORDER BY sequence), true) AS no_sign
FROM (SELECT *, {sign_at("before")} AS sign_at FROM (
    SELECT *, lag(struct(readable, {", ".join((*KIND, *COMMITTED))}))
        OVER (PARTITION BY group_id ORDER BY sequence) AS before
    FROM life
))
"""

_STATE = f"""
WITH counted AS (
    SELECT *, row_number() OVER (PARTITION BY group_id ORDER BY sequence) AS nth, count(*) OVER whole AS total
    FROM {{observed}}
    WINDOW whole AS (
        PARTITION BY group_id ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )
), life AS (
    -- As many observations follow as there are snapshots: none of these lacks the group.
    SELECT *, IF(readable, struct({", ".join(COMMITTED)}), NULL) AS committed
    FROM counted WHERE NOT all_count OR total - nth = %(newest)d - sequence
), signed AS (
    %(signs)s
), compared AS (
    SELECT *,
        unix_micros(observed_at) - unix_micros(lag(observed_at) OVER by_group) AS elapsed,
        sequence - lag(sequence) OVER by_group > 1 AS left_out,
        lag(quiet) OVER by_group AS quiet_before,
        {" AND ".join(f"{name} = lag({name}) OVER by_group" for name in KIND)} AS same_kind,
        last(committed, true) OVER earlier AS committed_before
    FROM signed
    WINDOW
        by_group AS (PARTITION BY group_id ORDER BY sequence),
        earlier AS (PARTITION BY group_id ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), marked AS (
    SELECT *,
        IF(committed != committed_before, sequence, NULL) AS moved,
        IF(
            quiet AND NOT coalesce(left_out OR %(watched)s AND same_kind AND no_sign AND quiet_before, false),
            sequence, NULL
        ) AS starts
    FROM compared
), stretches AS (
    SELECT *, IF(ends_known, sequence, NULL) AS known,
        max(IF(NOT quiet OR starts IS NOT NULL OR moved IS NOT NULL, sequence, NULL)) OVER so_far AS stretch
    FROM marked
    WINDOW so_far AS (PARTITION BY group_id ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), ordered AS (
    SELECT *, IF(ends_known, stretch * {_EARLIER_STRETCH}L - sequence, NULL) AS of_newest FROM stretches
), lives AS (
    SELECT group_id,
        min_by(observed_at, sequence) AS first_seen_at,
        max_by(observed_at, starts) AS run_from,
        max_by(observed_at, moved) AS last_moved_at,
        greatest(max(starts), max(moved)) AS idle_from,
        min_by(observed_at, known) AS life_lag_at,
        min_by(lag, known) AS life_lag,
        max_by(observed_at, of_newest) AS known_at,
        max_by(lag, of_newest) AS known_lag,
        max_by(log_start, of_newest) AS known_log_start,
        max(IF(ends_known, stretch, NULL)) = max(stretch) AS idle_ends_known
    FROM ordered
    GROUP BY group_id
)
SELECT newest.*, first_seen_at, last_moved_at, life_lag_at, life_lag,
    IF(quiet, run_from, NULL) AS empty_since,
    IF(quiet, %(newest)d - idle_from + 1, 0) AS observations,
    IF(quiet AND idle_ends_known, known_at, NULL) AS idle_lag_at,
    IF(quiet AND idle_ends_known, known_lag, NULL) AS idle_lag,
    IF(quiet AND idle_ends_known, known_log_start, NULL) AS idle_log_start
FROM {{newest}} AS newest JOIN lives USING (group_id)
"""

_VERDICTS = """
WITH idle AS (
    SELECT *, IF(empty_since IS NOT NULL, greatest(empty_since, last_moved_at), NULL) AS idle_since FROM {state}
), measured AS (
    SELECT *,
        IF(idle_since IS NOT NULL, greatest(unix_micros(observed_at) - unix_micros(idle_since), 0), NULL)
            AS idle_micros,
        unix_micros(observed_at) - unix_micros(last_moved_at) AS moved_micros
    FROM idle
)
"""


def replay(
    read: Callable[[Sequence[str]], DataFrame],
    policy: StalenessPolicy,
    snapshot_ids: Sequence[str],
    incomplete_ids: Sequence[str] = (),
    extents: Mapping[str, Extent] | None = None,
) -> DataFrame:
    """Return the state of each group in the last snapshot.

    :param read: returns the observations of snapshots.
    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    :param snapshot_ids: complete snapshots, oldest first.
    :param incomplete_ids: incomplete snapshots, whose signs of life count. Default: none.
    :param extents: the times of each snapshot's observations: what decides nothing is not sorted then, but all is read
        twice. Default: all is sorted.
    """
    observed = _numbered(read(snapshot_ids), {name: place for place, name in enumerate(snapshot_ids)})
    narrow = query(f"SELECT {_NARROW}, {_MARKS}, true AS all_count FROM {{observed}}", observed=observed)
    newest = query(f"SELECT *, {_MARKS} FROM {{newest}}", newest=read(snapshot_ids[-1:]))
    if extents is not None:
        uncertain = uncertain_positions(snapshot_ids, incomplete_ids, extents, policy)
        narrow = decisive(narrow.drop("all_count"), newest, len(snapshot_ids) - 1, uncertain)
    if followed_by := positions(snapshot_ids, incomplete_ids):
        narrow = with_glimpses(narrow, _numbered(read(incomplete_ids), followed_by))
    gap = f" AND elapsed <= {policy.max_gap_micros}" if policy.max_gap_micros else ""
    signs = _SIGNS if followed_by else _NO_SIGNS
    text = _STATE % {"signs": signs, "watched": f"elapsed >= 0{gap}", "newest": len(snapshot_ids) - 1}
    return query(text, observed=narrow, newest=newest)


def _numbered(observed: DataFrame, positions_of: Mapping[str, int]) -> DataFrame:
    """Keep the observations of these snapshots and add ``sequence``, the snapshot's position."""
    # Split from text: rows made in Python would start Python workers on the executors, for a second or two.
    places = ",".join(f"{name} {place}" for name, place in positions_of.items())
    return query(_NUMBERED % places, observed=observed)


def judge(state: DataFrame, policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> DataFrame:
    """Convert a state to verdicts, with forecasts that decide nothing.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    made = {
        **forecasts(offsets_retention_minutes),
        **verdict_and_reason(policy),
        "idle_seconds": "idle_micros / 1000000",
    }
    types = {field.name: field.dataType.simpleString() for field in VERDICT_SCHEMA}
    types |= {name: "timestamp_ltz" for name, kind in types.items() if kind == "timestamp"}  # whatever the session's is
    columns = ", ".join(f"CAST({made.get(name, name)} AS {kind}) AS {name}" for name, kind in types.items())
    return query(f"{_VERDICTS} SELECT {columns} FROM measured", state=state)
